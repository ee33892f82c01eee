"""Operators that run a small job in the task, and submit a large one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.jobs.job_folder import Handle, JobFolder
from lakehouse_airflow.jobs.machine import this_machine
from lakehouse_airflow.operators.base import job_operator
from lakehouse_airflow.operators.change_rows import LakehouseDeleteRowsOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.report import LakehouseAggregateOperator
from lakehouse_airflow.operators.z_order import LakehouseZOrderOperator
from lakehouse_airflow.task_metadata import task_application
from lakehouse_lib import DeltaTable, write_deltalake
from tests.table_builder import longs

TASK: Any = SimpleNamespace(dag_id="upkeep", run_id="manual__1", task_id="t", map_index=-1, try_number=2)
CONTEXT: Any = {"ti": TASK}


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of jobs that were submitted; none runs."""
    jobs: list[str] = []

    class Submission:
        partial_result = None

        def __init__(self, job: str, arguments: list[str], **_: Any) -> None:
            jobs.append(job)

        def run(self) -> dict[str, Any]:
            return {"job": jobs[-1], "version": None}

    monkeypatch.setattr(job_operator, "JobSubmission", Submission)
    return jobs


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """Two files of orders."""
    table = registry_file.parent / "tables" / "orders"
    for number in (1, 2):
        write_deltalake(table, longs(o_orderkey=[number], o_custkey=[number]), mode="append")
    return table


def test_small_work_is_done_in_the_task(orders: Path, submitted: list[str]) -> None:
    result = LakehouseOptimizeOperator(task_id="t", table="orders").execute(CONTEXT)
    assert (result["job"], result["read_version"], result["version"]) == ("compact", 1, 2)
    deleted = LakehouseDeleteRowsOperator(task_id="t", table="orders", predicate="o_custkey = 1").execute(CONTEXT)
    assert (deleted["job"], deleted["version"]) == ("delete_rows", 3)
    assert submitted == []
    commit = DeltaTable(orders).history(1)[0]
    assert (commit["airflow"]["task_id"], commit["airflow"]["try_number"]) == ("t", 2)
    again = LakehouseDeleteRowsOperator(task_id="t", table="orders", predicate="o_custkey = 1").execute(CONTEXT)
    assert (again["version"], again["done_before"]) == (3, True)
    assert not (orders / "_jobs").exists()


@pytest.mark.parametrize("limit", [{"spark_from_bytes": 100}, {"spark_from_bytes": "100"}, {"engine": "spark"}])
def test_large_work_is_submitted(orders: Path, submitted: list[str], limit: dict[str, Any]) -> None:
    LakehouseOptimizeOperator(task_id="t", table="orders", **limit).execute(CONTEXT)
    LakehouseZOrderOperator(task_id="t", table="orders", **limit).execute(CONTEXT)
    assert submitted == ["compact", "z_order"]
    assert DeltaTable(orders).version() == 1


def test_the_engine_arrow_submits_nothing(orders: Path, submitted: list[str]) -> None:
    operator = LakehouseOptimizeOperator(task_id="t", table="orders", engine="arrow", spark_from_bytes=1)
    assert operator.execute(CONTEXT)["version"] == 2
    report = LakehouseAggregateOperator(
        task_id="t",
        table="report",
        inputs=["orders"],
        sql_file=str(orders.parents[1] / "report.sql"),
        app_id="report",
        app_version=1,
        lakehouse_conn_id="lakehouse_default",
        engine="arrow",
    )
    report.table = str(orders.parent / "report")
    with pytest.raises(AirflowFailException, match="only Spark can run the job aggregate; set engine='auto'"):
        report.execute(CONTEXT)
    assert submitted == []


def test_another_engine_is_refused(orders: Path, submitted: list[str]) -> None:
    with pytest.raises(AirflowFailException, match="engine is 'duckdb'; expected one of auto, arrow, spark"):
        LakehouseOptimizeOperator(task_id="t", table="orders", engine="duckdb").execute(CONTEXT)


def test_the_task_looks_for_the_job_of_an_earlier_try_first(orders: Path, submitted: list[str]) -> None:
    folder = JobFolder(str(orders / "_jobs"), None, task_application(CONTEXT))
    folder.handle()
    folder.put_handle(Handle(folder.new_name(), "c", this_machine(), 2, 1))
    LakehouseOptimizeOperator(task_id="t", table="orders").execute(CONTEXT)
    assert submitted == ["compact"]


def test_a_load_that_refuses_a_file_fails_with_its_partial_result(registry_file: Path, submitted: list[str]) -> None:
    landing = registry_file.parent / "landing" / "orders"
    (landing / "good.csv").write_text("o_orderkey,o_custkey\n1,1\n")
    (landing / "bad.csv").write_text("o_orderkey\n1\n")
    pushed: dict[str, Any] = {}
    task: Any = SimpleNamespace(**vars(TASK), xcom_push=pushed.__setitem__)
    operator = LakehouseIngestOperator(task_id="t", table="orders", lakehouse_conn_id="lakehouse_default")
    with pytest.raises(AirflowFailException, match="bad"):
        operator.execute({"ti": task})
    assert pushed["return_value"]["files_loaded"] == 1
    assert submitted == []
