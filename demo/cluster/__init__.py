"""The demo on the services of docker-compose.yml, without containers: `make demo-cluster`."""
