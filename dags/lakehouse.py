"""The DAGs of the registry's tables: loads, maintenance, erasures, and the report."""

from lakehouse_airflow import lakehouse_dags

lakehouse_dags()
