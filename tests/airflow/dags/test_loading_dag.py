"""A DAG with real Airflow, from its operators to a Spark job and a table; other runs are in `test_dag_runs.py`."""

from pathlib import Path

import pytest

from tests.airflow.dags.loading import load_orders

pytestmark = pytest.mark.usefixtures("airflow_db", "spark_connection")


def test_landed_files_are_loaded_and_published(registry_file: Path) -> None:
    load_orders(registry_file)
