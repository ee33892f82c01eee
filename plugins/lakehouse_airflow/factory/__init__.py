"""The DAGs of a registry: a module for each kind of DAG."""
