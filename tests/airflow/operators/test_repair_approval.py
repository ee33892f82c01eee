"""A repair that needs an approval repairs only what was approved."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.operators.repair import LakehouseRepairOperator
from lakehouse_airflow.operators.repair_approval import LakehouseRepairApprovalOperator
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import RegistryError
from tests.airflow.erasure_runs import ANN, answer_to, asked_by, ledger
from tests.table_builder import longs


class Run:
    """A run of a DAG that asks and repairs. It is also the task instance in the context."""

    dag_id, run_id, task_id, map_index, try_number = "upkeep", "r1", "repair", -1, 1
    id = "00000000-0000-0000-0000-000000000000"

    def __init__(self) -> None:
        self.left: dict[str, Any] = {}
        run = SimpleNamespace(dag_id="upkeep", run_id="r1", triggering_user_name="bob")
        self.context: Any = {"ti": self, "task_instance": self, "dag_run": run}

    def xcom_push(self, key: str, value: Any) -> None: ...

    def xcom_pull(self, task_ids: str, map_indexes: int = -1) -> Any:
        return self.left.get(task_ids)

    def ask(self) -> tuple[LakehouseRepairApprovalOperator, dict[str, Any]]:
        operator = LakehouseRepairApprovalOperator(task_id="approve", table="orders")
        return operator, asked_by(operator, self.context)

    def approve(self, option: str = "Approve", by: Any = ANN) -> None:
        operator, kwargs = self.ask()
        self.left["approve"] = operator.execute_complete(self.context, answer_to(option, by), **kwargs)

    def repair(self, table: str = "orders") -> dict[str, Any]:
        operator = LakehouseRepairOperator(task_id="repair", table=table, dry_run=False, approved_by="approve")
        return operator.execute(self.context)


@pytest.fixture
def orders(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with four files in four versions; the registry has the approvers of repairs."""
    body = json.loads(registry_file.read_text())
    body["repair"] = {"approvers": ["ann"]}
    registry_file.write_text(json.dumps(body))
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: shown.append(question))
    monkeypatch.setattr(Run, "shown", shown, raising=False)
    table = registry_file.parent / "tables" / "orders"
    for number in range(4):
        write_deltalake(table, longs(o_custkey=[number]), mode="append")
    return table


def lose(orders: Path, version: int) -> str:
    """Delete the file that a version added."""
    lost = sorted(set(files(orders, version)) - set(files(orders, version - 1) if version else ()))
    (file,) = lost
    Path(file).unlink()
    return Path(file).name


def files(orders: Path, version: int) -> list[str]:
    return DeltaTable(str(orders), version=version).file_uris()


def test_approved_findings_are_repaired(orders: Path) -> None:
    lost = lose(orders, 0)
    run = Run()
    run.approve()
    (question,) = run.shown
    assert question["subject"] == "Repair the table orders?"
    assert f"* files_removed (will be repaired): 1, such as ` {lost} `" in question["body"]
    assert question["assigned_users"] == [ANN]
    assert run.repair()["found"] == {"files_removed": {"count": 1, "first": [lost]}}
    assert sorted(DeltaTable(str(orders)).to_pyarrow_table()["o_custkey"].to_pylist()) == [1, 2, 3]


def test_other_findings_than_those_approved_are_refused(orders: Path) -> None:
    lose(orders, 0)
    run = Run()
    run.approve()
    lose(orders, 1)
    with pytest.raises(
        AirflowFailException, match=r"findings differ from those of request .* and nothing was repaired"
    ):
        run.repair()
    assert DeltaTable(str(orders)).version() == 3


def test_an_old_answer_does_not_count_for_new_findings(orders: Path) -> None:
    lose(orders, 0)
    run = Run()
    operator, kwargs = run.ask()
    lose(orders, 1)
    with pytest.raises(AirflowFailException, match=r"findings differ from those of request .* trigger the DAG again"):
        run.ask()
    run.left["approve"] = operator.execute_complete(run.context, answer_to("Approve", ANN), **kwargs)
    with pytest.raises(AirflowFailException, match=r"nothing was repaired"):
        run.repair()
    assert DeltaTable(str(orders)).version() == 3


@pytest.mark.parametrize("left", [None, {"chosen_options": ["Approve"], "responded_by_user": ANN}, "Approve"])
def test_a_forged_answer_is_refused(orders: Path, left: Any) -> None:
    lose(orders, 0)
    run = Run()
    run.ask()
    run.left["approve"] = left
    with pytest.raises(
        AirflowFailException, match=r"LAKEHOUSE_NOT_APPROVED. the task 'approve' of this run has returned no request"
    ):
        run.repair()
    (request,) = {path.name for path in (orders.parents[1] / "ledger").iterdir()} - {"questions"}
    run.left["approve"] = {"request": request, "digest": "0" * 64}
    with pytest.raises(AirflowFailException, match=r"LAKEHOUSE_NOT_APPROVED. the plan of request"):
        run.repair()
    assert DeltaTable(str(orders)).version() == 3


def test_an_approval_is_for_one_table(orders: Path) -> None:
    lose(orders, 0)
    run = Run()
    run.approve()
    with pytest.raises(AirflowFailException, match=r"is about the table .*orders; expected .*customer"):
        run.repair("customer")


def test_a_sound_table_skips_the_approval(orders: Path) -> None:
    with pytest.raises(AirflowSkipException, match="the table 'orders' needs no repair"):
        LakehouseRepairApprovalOperator(task_id="approve", table="orders").execute(Run().context)
    assert not (orders.parents[1] / "ledger").exists()


def test_clearing_the_task_does_not_change_a_decision(orders: Path) -> None:
    lose(orders, 0)
    run = Run()
    run.approve()
    again = LakehouseRepairApprovalOperator(task_id="approve", table="orders").execute(run.context)
    assert again == run.left["approve"]
    assert ledger().read(again["request"], "decision")["approver"] == ANN
    assert len(run.shown) == 1


def test_a_registry_without_approvers_of_repairs_is_refused(registry_file: Path) -> None:
    with pytest.raises(RegistryError, match=r'write "repair": \{"approvers"'):
        load_registry().repair_policy()


def test_a_retry_of_a_finished_repair_succeeds(orders: Path) -> None:
    lose(orders, 0)
    run = Run()
    run.approve()
    run.repair()
    assert run.repair()["is_sound"] is True
