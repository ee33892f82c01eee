"""A real Airflow with its own home folder, and a small lakehouse for its DAGs."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.log_builder import field, struct

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="lakehouse-airflow-test-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Airflow reads its configuration when it is imported, which is when pytest collects these modules.
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Airflow would limit the import of a DAG file with the process's alarm, which pytest's timeout uses.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "0",
        # Tests change the registry, and so their DAGs, faster than DAG files normally change.
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-of-the-tests-alone-0123456789abcdef0123456789abcdef01234567",
    }
)

LEDGER_KEY = "of-the-tests-alone-0123456789abcdef"

# These drivers live for seconds, so the JVM's second compiler would cost more than it saves.
(HOME / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n")

# Airflow and its dependencies warn about each other.
THIRD_PARTIES = (
    "GitWildMatchPattern:DeprecationWarning",
    "Using .httpx. with .starlette.testclient. is deprecated",
    "Multiple rows returned with uselist=False",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            for warning in THIRD_PARTIES:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{warning}"))


@pytest.fixture(autouse=True)
def no_polls() -> Iterator[None]:
    """Close the polls of a test, which keep its connections and its registry for a minute."""
    yield
    polling = sys.modules.get("lakehouse_airflow.polling")
    if polling is not None:
        polling._polls.clear()
        polling._hooks.clear()


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """A metadata database. It is created in a thread, because in the main thread Airflow would take the test timeout's
    alarm."""
    from airflow.utils.db import initdb

    with ThreadPoolExecutor(1) as thread:
        thread.submit(initdb).result()


def home_files() -> dict[str, bytes]:
    """The contents of all files in Airflow's home, by path.

    Another process reads them: when a process closes ``airflow.db``, it drops its own SQLite locks on this file, and
    another program may then delete SQLite's log with its last commits.
    """
    files = [file for file in HOME.rglob("*") if file.is_file()]
    return {str(file): subprocess.check_output(["cat", file]) for file in files}


@pytest.fixture
def registry_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The registry of customers, orders and line items in its own folder; no table exists yet."""
    file = tmp_path / "lakehouse.json"
    (tmp_path / "report.sql").write_text("select o_custkey, count(*) as orders from orders group by 1 order by 1")
    source = {"name": "shop_orders", "landing": "landing/orders", "settle_seconds": 0, "files_per_batch": 10}
    fields = [field("o_orderkey", "long"), field("o_custkey", "long")]
    (tmp_path / "orders.schema.json").write_text(json.dumps(struct(*fields)))
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "o_custkey"}}
    rule["meta"] = {"rule_id": "known_customer"}
    (tmp_path / "orders.suite.json").write_text(json.dumps({"name": "orders", "expectations": [rule]}))
    (tmp_path / "landing" / "orders").mkdir(parents=True)
    body = {
        "tables": {
            "orders": {
                "uri": "tables/orders",
                "source": source,
                "schema": "orders.schema.json",
                "suite": "orders.suite.json",
                "quarantine": "tables/orders_quarantine",
                "cluster_by": ["o_custkey"],
                "vacuum": {"retention_hours": 0, "enforce_retention": False},
                "maintenance": {"payback_queries": 1e9},
            },
            "lineitem": {"uri": "tables/lineitem"},
            "customer": {"uri": "tables/customer"},
        },
        "ledger": "ledger",
        "subjects": {
            "customer": {
                "id_type": "long",
                "approvers": ["ann"],
                "rows": [
                    {"table": "customer", "key": "c_custkey"},
                    {"table": "orders", "key": "o_custkey"},
                    {
                        "table": "lineitem",
                        "key": "l_orderkey",
                        "through": {"table": "orders", "key": "o_custkey", "select": "o_orderkey"},
                    },
                ],
            }
        },
        "report": {"tables": ["orders"], "sql": "report.sql", "output": "tables/orders_by_customer"},
    }
    file.write_text(json.dumps(body))
    monkeypatch.setenv("LAKEHOUSE_REGISTRY", str(file))
    ledger = {"conn_type": "lakehouse", "password": LEDGER_KEY}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER", json.dumps(ledger))
    return file


@pytest.fixture
def spark_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The Spark connection ``spark_default``: two cores of this machine, and a driver that starts quickly."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(HOME))
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return


@pytest.fixture
def tables(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Orders 1 and 2 of the customers 1 and 2, with one line item each; customer 2 is not in ``customer``."""
    from airflow.providers.standard.operators import hitl

    from lakehouse_airflow.operators.base import job_operator
    from tests.airflow.erasure_runs import JobInThisProcess, append, put_hitl_detail

    monkeypatch.setattr(job_operator, "JobSubmission", JobInThisProcess)
    monkeypatch.setattr(hitl, "upsert_hitl_detail", put_hitl_detail)
    tables = registry_file.parent / "tables"
    append(tables / "customer", c_custkey=[1])
    append(tables / "orders", o_orderkey=[1, 2], o_custkey=[1, 2])
    append(tables / "lineitem", l_orderkey=[1, 2])
    return tables
