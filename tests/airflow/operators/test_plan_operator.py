"""The plan of a maintenance run: its tasks, and what it records."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import deltalake
import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator, label_of
from lakehouse_airflow.operators.maintenance.plan import LakehousePlanOperator
from lakehouse_lib import DeltaTable
from lakehouse_lib.fleet.health.record import HealthRecord
from tests.table_builder import longs


@pytest.fixture
def registry(registry_file: Path) -> dict[str, Any]:
    """The registry with records, and two tables of small files; ``lineitem`` does not exist."""
    for name, column in (("orders", "o_custkey"), ("customer", "c_custkey")):
        for number in range(3):
            rows = longs(**{column: [0, number, 9]})
            deltalake.write_deltalake(registry_file.parent / "tables" / name, rows, mode="append")
    body: dict[str, Any] = json.loads(registry_file.read_text())
    return {**body, "records": "records"}


def plan(registry_file: Path, registry: dict[str, Any], **arguments: Any) -> list[dict[str, Any]]:
    registry_file.write_text(json.dumps(registry))
    return LakehousePlanOperator(task_id="plan", **arguments).execute({})


def orders_of(work: list[dict[str, Any]]) -> dict[str, list[list[str]]]:
    engines: dict[str, list[list[str]]] = {}
    for task in work:
        engines.setdefault(task["engine"], []).append([order["table"] for order in task["orders"]])
    return engines


def test_each_table_that_needs_it_is_a_task(registry_file: Path, registry: dict[str, Any]) -> None:
    assert sorted(orders_of(plan(registry_file, registry))["arrow"]) == [["customer"], ["orders"]]
    assert orders_of(plan(registry_file, registry, spark_from_bytes=1, only=["orders"])) == {"spark": [["orders"]]}
    (tables,) = orders_of(plan(registry_file, registry, workers=1))["arrow"]
    assert sorted(tables) == ["customer", "orders"]
    registry["tables"]["customer"]["maintenance"] = {"engine": "spark"}
    assert orders_of(plan(registry_file, registry)) == {"arrow": [["orders"]], "spark": [["customer"]]}


def test_a_plan_runs_no_step_and_a_closed_window_plans_no_step(registry_file: Path, registry: dict[str, Any]) -> None:
    assert plan(registry_file, registry, plan_only="True") == []
    with pytest.raises(AirflowFailException, match="plan_only is 'yes'; expected True or False"):
        plan(registry_file, registry, plan_only="yes")
    hour = time.gmtime().tm_hour
    window = {"start": f"{(hour + 2) % 24:02d}:00", "end": f"{(hour + 3) % 24:02d}:00"}
    assert plan(registry_file, {**registry, "budget": {"window": window}}) == []


def test_a_budget_that_is_too_small_fails_the_task(registry_file: Path, registry: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException, match="DELTA_BUDGET_TOO_SMALL"):
        plan(registry_file, {**registry, "budget": {"bytes": 1}})


def test_the_records_have_health_steps_and_deleted_files(registry_file: Path, registry: dict[str, Any]) -> None:
    work = plan(registry_file, registry)
    records = registry_file.parent / "records"
    health = HealthRecord(str(records)).series("orders", 1)
    assert (len(health), health["files"].to_pylist()) == (1, [3])
    for task in work:
        result = LakehouseMaintainOperator(task_id="maintain", work=json.loads(json.dumps(task))).execute({})
        assert {step["status"] for step in result["steps"]} == {"done"}
    assert plan(registry_file, registry) == []
    steps = DeltaTable(records / "runs").to_pyarrow_table().select(["table", "verb"]).to_pylist()
    assert {(step["table"], step["verb"]) for step in steps} == {
        ("orders", "z_order"),
        ("orders", "vacuum"),
        ("customer", "optimize"),
    }
    assert len(DeltaTable(records / "deleted_files").to_pyarrow_table()) == 3


@pytest.mark.parametrize(
    ("tables", "label"),
    [
        ([], ""),
        (["orders"], "orders"),
        (["orders", "2024"], "orders, 2024"),
        (["orders", "customer", *(f"t{number}" for number in range(14))], "orders, customer and 14 more"),
        (["t" * 300, "u" * 300, "v"], f"{'t' * 99}…, {'u' * 99}… and 1 more"),
    ],
)
def test_the_label_of_a_task_fits_airflows_column(tables: list[str], label: str) -> None:
    orders = [{"table": table} for table in tables]
    assert LakehouseMaintainOperator(task_id="maintain", work={"orders": orders}).label == label == label_of(tables)
    assert len(label) <= 250
