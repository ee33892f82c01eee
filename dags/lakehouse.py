"""The DAGs of the registry: loads, maintenance, erasures, the report and the check of the registry."""

from lakehouse_airflow import lakehouse_dags

lakehouse_dags()
