"""XComs with names and versions of tables, after a user has edited them: no other table is opened or announced.

Airflow's role ``user`` may edit XComs and mark tasks as success. The runs are real except for Spark, whose tasks are
marked as success.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.apply_changes import LakehouseApplyChangesOperator
from lakehouse_airflow.operators.change_rows import LakehouseMergeRowsOperator
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator
from lakehouse_airflow.operators.metadata.clone import LakehouseCloneOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.report import LakehouseAggregateOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from lakehouse_lib.errors import InvalidArgumentError
from tests.airflow.api_runs import ApiRun
from tests.airflow.dag_runs import api_client, let_run, load_dag
from tests.airflow.sensors.task_run import Run, publish
from tests.peers import parquet_files
from tests.table_builder import longs

DAG = "lakehouse_maintenance"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A table that is not in the registry, with a file that a vacuum would delete."""
    table = tmp_path / "elsewhere"
    for mode in ("append", "overwrite"):
        write_deltalake(table, longs(k=[1]), mode=mode)
    for file in parquet_files(table):
        os.utime(file, (0, 0))
    commit = table / "_delta_log" / f"{1:020d}.json"
    commit.write_text(re.sub('"deletionTimestamp":[0-9]+', '"deletionTimestamp":0', commit.read_text()))
    return table


@pytest.fixture
def orders(registry_file: Path) -> Path:
    table = registry_file.parent / "tables" / "orders"
    for key in (1, 2):
        write_deltalake(table, longs(k=[key]), mode="append")
    return table


def test_the_vacuum_of_the_table_would_delete_its_file(elsewhere: Path) -> None:
    assert len(LakehouseHook().table(str(elsewhere)).vacuum(dry_run=True)) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("airflow_db")
def test_maintenance_opens_no_location_that_a_user_wrote_into_the_plan(
    registry_file: Path, orders: Path, elsewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = parquet_files(elsewhere)
    let_run(DAG)
    bob = api_client("bob", "USER")
    run = ApiRun(bob, DAG, {"tables": ["orders"]})
    run.work(only="plan")
    order = {"run": "0" * 32, "planned_at": 0, "table": str(elsewhere), "limits": {"vacuum": None}, "bytes": 0}
    assert run.edit_xcom(bob, "plan", [{"engine": "arrow", "orders": [order]}]).status_code == 200
    result = run.work(only="maintain")
    assert result.states["maintain[0]"] == "failed", result.states
    assert "[DELTA_TABLE_NOT_REGISTERED] table is '" in capfd.readouterr().out
    assert parquet_files(elsewhere) == before
    assert not list((elsewhere / "_delta_log").glob("*.checkpoint.parquet"))


@pytest.mark.parametrize(
    "work",
    [
        None,
        "x",
        {"engine": "sh", "orders": []},
        {"engine": "arrow", "orders": [{"table": "orders", "retention_hours": 0}]},
        {"engine": "arrow", "orders": [{"run": "0" * 32, "planned_at": 0, "table": "orders", "limits": {"erase": 1}}]},
    ],
)
def test_an_edited_work_order_is_refused(orders: Path, work: Any) -> None:
    before = parquet_files(orders)
    with pytest.raises(AirflowFailException, match=r"work is not an element of a plan|the work order is"):
        LakehouseMaintainOperator(task_id="t", work=work).execute({})
    assert parquet_files(orders) == before


@pytest.mark.parametrize("name", ["/", "../elsewhere", "s3://lake/elsewhere", "nothing", 7, None, ["orders"]])
def test_a_step_of_an_unregistered_table_is_refused_by_name(registry_file: Path, name: Any) -> None:
    order = {"run": "0" * 32, "planned_at": 0, "table": name, "limits": {}, "bytes": 0}
    work = {"engine": "arrow", "orders": [order]}
    with pytest.raises(AirflowFailException, match=r"DELTA_TABLE_NOT_REGISTERED|the work order is"):
        LakehouseMaintainOperator(task_id="maintain", work=work).execute({})
    steps = [
        operator(task_id="t", table="orders", registered_only=True)
        for operator in (LakehouseOptimizeOperator, LakehouseVacuumOperator)
    ]
    for task in [*steps, LakehouseIngestOperator(task_id="ingest", table="orders")]:
        task.table = name
        with pytest.raises(AirflowFailException, match=r"^InvalidArgumentError: \[DELTA_TABLE_NOT_REGISTERED\] table"):
            task.execute({})


def test_a_task_does_not_take_a_table_of_another_dag(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    body["tables"]["orders"]["airflow"] = {"per": "table"}
    registry_file.write_text(json.dumps(body))
    order = {"run": "0" * 32, "planned_at": 0, "table": "customer", "limits": {"vacuum": None}, "bytes": 0}
    for kind, name, value in (
        ("maintenance", "maintain", {"work": {"engine": "arrow", "orders": [order]}}),
        ("ingest", "ingest", {"table": "customer"}),
    ):
        arguments = load_dag(f"lakehouse_{kind}_orders").get_task(name).partial_kwargs
        operator = {"maintain": LakehouseMaintainOperator, "ingest": LakehouseIngestOperator}[name]
        task = operator(task_id=name, tables=arguments["tables"], **value)
        with pytest.raises(AirflowFailException, match="table is 'customer'; expected a table of this DAG: orders"):
            task.execute({})


@pytest.mark.parametrize(
    ("operator", "arguments", "names"),
    [
        (
            LakehouseApplyChangesOperator,
            {"keys": ["id"], "sequence_by": "at"},
            {"events": "lineitem", "deleted_keys": "lineitem"},
        ),
        (LakehouseMergeRowsOperator, {"predicate": "true", "clauses": []}, {"source": "lineitem"}),
        (LakehouseCloneOperator, {}, {"target": "lineitem"}),
    ],
)
def test_every_table_of_a_job_is_registered(
    orders: Path, elsewhere: Path, operator: Any, arguments: dict[str, Any], names: dict[str, str]
) -> None:
    before = parquet_files(elsewhere)
    for name in names:
        edited = {**names, name: str(elsewhere)}
        task = operator(task_id="t", table="orders", registered_only=True, **arguments, **edited)
        with pytest.raises(AirflowFailException, match=rf"\[DELTA_TABLE_NOT_REGISTERED\] table is '{elsewhere}'"):
            task.execute({})
    assert parquet_files(elsewhere) == before


def test_only_registered_tables_emit_events(orders: Path, elsewhere: Path) -> None:
    run = Run(max_tries=1)
    forged = {str(elsewhere): -1, f"file://{elsewhere}": None, "../elsewhere": None, "": None}
    assert publish(run, **forged, orders=0) == {"orders": [0, 1]}
    assert [event["table"] for event in run.events] == ["orders"]
    with pytest.raises(AirflowFailException, match=r"\[DELTA_TABLE_NOT_REGISTERED\]"):
        publish(run, **{str(elsewhere): None})


@pytest.mark.parametrize("before", [-1, True, "0", "x", 0.5, [0], {"version": 0}])
def test_a_version_that_is_not_valid_emits_no_event(orders: Path, before: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"\[DELTA_INVALID_VERSION\] the version of 'orders' before the run"):
        publish(Run(max_tries=1), orders=before)


def test_a_cursor_beyond_the_table_is_refused(orders: Path) -> None:
    def arguments(version: Any) -> list[str]:
        report = LakehouseAggregateOperator(
            task_id="t", table="/x", inputs=["orders"], sql_file="x.sql", app_id="x", app_version=version
        )
        return report.arguments(LakehouseHook())

    assert arguments(DeltaTable(str(orders)).version())[-1] == "--app-version=1"
    with pytest.raises(InvalidArgumentError, match=r"^\[DELTA_INVALID_VERSION\] app_version is 2; expected at most 1"):
        arguments(2)
    for version in (0.5, None, "-1", True):
        with pytest.raises(AirflowFailException, match="expected a table's version"):
            arguments(version)
