"""Attacks by users of every role through Airflow's REST API: to erase others' rows, or to approve their own request.

Airflow's API server, its metadata database, its task runner and the DAG are real, and each attack uses the token of its
user. Only the Spark job is replaced by the same deletes in this process. Each attack ends in a refusal with a reason,
and no row, file or version is gone.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.operators.base import job_operator
from lakehouse_lib.ledger import Ledger
from lakehouse_lib.store import LocalStore
from tests.airflow.api_runs import ApiRun
from tests.airflow.dag_runs import DagRunResult, api_client, let_run
from tests.airflow.erasure_runs import JobInThisProcess, edit
from tests.peers import parquet_files

pytestmark = [pytest.mark.usefixtures("airflow_db"), pytest.mark.slow]  # a real API server and whole runs
DAG = "lakehouse_erasure_customer"
TABLES = ("customer", "orders", "lineitem", "elsewhere")


@cache
def user(name: str, role: str = "USER") -> Any:
    """A client with the token of a user. Only ann is an approver in the registry."""
    return api_client(name, role)


@cache
def known_dag() -> None:
    let_run(DAG)


@dataclass(frozen=True)
class Shop:
    """Ten customers with three orders of one line item each, and a table that is not in the registry."""

    root: Path
    capfd: pytest.CaptureFixture[str]

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    def request(self, run: ApiRun) -> Path:
        """The folder of the run's request in the ledger."""
        return self.root / "ledger" / run.xcom(user("bob"), "locate")["request"]

    def state(self) -> dict[str, Any]:
        """The versions and rows of every table by delta-rs, and every Parquet file below it."""
        opened = {name: DeltaTable(str(self.tables / name)) for name in TABLES}
        rows = {name: table.to_pyarrow_table().num_rows for name, table in opened.items()}
        return {
            "versions": {name: table.version() for name, table in opened.items()},
            "rows": rows,
            "files": {name: parquet_files(self.tables / name) for name in TABLES},
        }

    def trigger(self, customer: int = 2, *, by: str = "bob") -> ApiRun:
        """A run whose approval waits for an answer."""
        run = ApiRun(user(by), DAG, {"customer_id": customer})
        assert run.work().states["approve"] == "awaiting_input"
        return run

    def approved(self, customer: int = 2) -> ApiRun:
        """A run that ann has approved, and whose delete has not started."""
        run = self.trigger(customer)
        assert run.answer(user("ann")).status_code == 200
        run.work(only="approve")
        return run

    def refusal(self, run: ApiRun, task_id: str = "delete") -> str:
        """Continue the run, which must fail in that task; returns the text in the task's log."""
        self.capfd.readouterr()
        result = run.work()
        log = self.capfd.readouterr().out
        assert result.states[task_id] == "failed", result.states
        assert_nothing_done(result)
        return log


@pytest.fixture
def shop(erasable: Shop) -> Iterator[Shop]:
    """A shop; after the test nothing of it may be gone."""
    before = erasable.state()
    yield erasable
    assert erasable.state() == before


@pytest.fixture
def erasable(registry_file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shop:
    monkeypatch.setattr(job_operator, "JobSubmission", JobInThisProcess)
    shop = Shop(registry_file.parent, capfd)
    customers = pa.array(range(1, 11), pa.int64())
    orders = pa.array(range(30), pa.int64())
    owners = pa.array([order % 10 + 1 for order in range(30)], pa.int64())
    for half in (slice(0, 5), slice(5, 10)):
        write_deltalake(shop.tables / "customer", pa.table({"c_custkey": customers[half]}), mode="append")
    write_deltalake(shop.tables / "orders", pa.table({"o_orderkey": orders, "o_custkey": owners}))
    write_deltalake(shop.tables / "lineitem", pa.table({"l_orderkey": orders}))
    write_deltalake(shop.tables / "elsewhere", pa.table({"c_custkey": customers}))
    known_dag()
    return shop


def assert_nothing_done(result: DagRunResult) -> None:
    assert "success" not in {result.states[task] for task in ("delete", "purge", "report")}, result.states


def test_without_an_attack_only_the_rows_of_the_person_are_erased(erasable: Shop) -> None:
    shop = erasable
    run = shop.approved()
    assert run.work().state == "success"
    assert shop.state()["rows"] == {"customer": 9, "orders": 27, "lineitem": 27, "elsewhere": 10}


def test_an_open_question_does_not_block_other_requests(erasable: Shop) -> None:
    shop = erasable
    waiting = shop.trigger(7)
    assert shop.approved(2).work().state == "success"
    assert waiting.work().states["approve"] == "awaiting_input"
    assert waiting.answer(user("ann")).status_code == 200
    assert waiting.work().state == "success"
    assert shop.state()["rows"] == {"customer": 8, "orders": 24, "lineitem": 24, "elsewhere": 10}


@pytest.mark.parametrize(("name", "role"), [("bob", "USER"), ("otto", "OP"), ("root", "ADMIN")])
def test_sql_in_place_of_the_request_is_refused(shop: Shop, name: str, role: str) -> None:
    run = shop.approved()
    places = {
        table: {"uri": str(shop.tables / table), "predicate": "`c_custkey` = 2 OR TRUE", "rows": 1, "on_disk": {}}
        for table in TABLES
    }
    forged = {"subject": "customer", "id": 2, "found_at": "2020-01-01T00:00:00+00:00", "tables": places}
    assert run.edit_xcom(user(name, role), "locate", forged).status_code == 200
    assert "the task 'locate' of this run has returned no request" in shop.refusal(run)


def test_sql_beside_the_request_is_not_read(erasable: Shop) -> None:
    shop = erasable
    run = shop.approved()
    pointer = run.xcom(user("bob"), "locate")
    more = {"predicate": "TRUE", "tables": {"elsewhere": {"uri": str(shop.tables / "elsewhere"), "predicate": "TRUE"}}}
    assert run.edit_xcom(user("bob"), "locate", {**pointer, **more, "id": 7, "person": "x"}).status_code == 200
    assert run.work().state == "success"
    assert shop.state()["rows"] == {"customer": 9, "orders": 27, "lineitem": 27, "elsewhere": 10}
    assert 7 in DeltaTable(str(shop.tables / "customer")).to_pyarrow_table()["c_custkey"].to_pylist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": "0" * 64}, "XCom says"),
        ({"digest": "` = 2 OR TRUE"}, "XCom says"),
        ({"request": "0" * 20}, "has no plan in the ledger"),
        ({"request": "../../tables/custom"}, "is not valid; expected 20 hexadecimal digits"),
        ({"request": 7}, "has returned no request"),
    ],
)
def test_an_edited_request_pointer_is_refused(shop: Shop, change: dict[str, Any], reason: str) -> None:
    run = shop.approved()
    pointer = run.xcom(user("bob"), "locate")
    assert run.edit_xcom(user("bob"), "locate", {**pointer, **change}).status_code == 200
    assert reason in shop.refusal(run)


def test_another_persons_request_is_refused(shop: Shop) -> None:
    run, other = shop.approved(2), shop.approved(7)
    assert run.edit_xcom(user("bob"), "locate", other.xcom(user("bob"), "locate")).status_code == 200
    assert "the plan of request" in (log := shop.refusal(run))
    assert "expected this run's" in log


def test_a_request_swapped_before_the_question_is_refused(shop: Shop) -> None:
    other = shop.trigger(7)
    run = ApiRun(user("bob"), DAG, {"customer_id": 2})
    run.work(only="locate")
    assert run.edit_xcom(user("bob"), "locate", other.xcom(user("bob"), "locate")).status_code == 200
    assert "expected this run's" in shop.refusal(run, "approve")


def test_a_waiting_question_keeps_the_plan_that_it_asked_about(shop: Shop) -> None:
    run, other = shop.trigger(2), shop.trigger(7)
    assert run.edit_xcom(user("bob"), "locate", other.xcom(user("bob"), "locate")).status_code == 200
    assert run.answer(user("ann")).status_code == 200
    run.work(only="approve")
    # The decision is about the plan that ann was asked about, but the deleting task was pointed at another plan.
    assert json.loads(
        (shop.root / "ledger" / run.xcom(user("bob"), "approve")["request"] / "decision.json").read_text()
    )
    assert "expected this run's" in shop.refusal(run)


@pytest.mark.parametrize(("name", "role"), [("bob", "USER"), ("otto", "OP"), ("root", "ADMIN")])
def test_a_forged_answer_is_refused(shop: Shop, name: str, role: str) -> None:
    run, forger = shop.trigger(), user(name, role)
    pointer = run.xcom(user("bob"), "locate")
    answer = {
        **{key: pointer[key] for key in ("request", "digest")},
        "answer": "Approve",
        "approver": "ann",
        "answered_at": "2099-01-01T00:00:00+00:00",
        "chosen_options": ["Approve"],
        "responded_by_user": {"id": "ann", "name": "Data Protection Officer"},
        "responded_at": "2099-01-01T00:00:00+00:00",
    }
    assert run.add_xcom(forger, "approve", answer).status_code == 201
    assert run.mark_success(forger, "approve").status_code == 200
    assert "has no decision in the ledger" in shop.refusal(run)


def test_marking_tasks_as_success_approves_nothing(shop: Shop) -> None:
    run = ApiRun(user("bob"), DAG, {"customer_id": 2})
    for task in ("locate", "approve"):
        assert run.mark_success(user("bob"), task).status_code == 200
    assert "the task 'locate' of this run has returned no request" in shop.refusal(run)

    run = shop.trigger()
    for task in ("approve", "delete"):
        assert run.mark_success(user("bob"), task).status_code == 200
    shop.capfd.readouterr()
    assert run.work().states["purge"] == "failed"
    assert "has no decision in the ledger" in shop.capfd.readouterr().out


def test_marking_the_delete_as_success_does_not_purge_live_rows(shop: Shop) -> None:
    run = shop.approved()
    assert run.mark_success(user("bob"), "delete").status_code == 200
    shop.capfd.readouterr()
    assert run.work().states["purge"] == "failed"
    assert "the current version still holds" in shop.capfd.readouterr().out


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("plan", lambda plan: plan["tables"][0].update(uri="/somewhere/else")),
        ("plan", lambda plan: plan.update(requester="eve")),
        ("decision", lambda decision: decision["approver"].update(id="eve")),
        ("keys", lambda keys: keys.update(id=7)),
    ],
)
def test_an_edited_document_of_the_ledger_is_refused(shop: Shop, name: str, change: Callable[[Any], Any]) -> None:
    run = shop.approved()
    file = shop.request(run) / f"{name}.json"
    edit(file, change)
    assert f"{name}.json of the ledger" in (log := shop.refusal(run))
    assert "has a wrong seal: it was edited" in log


def test_a_rejection_that_is_edited_into_an_approval_is_refused(shop: Shop) -> None:
    run = shop.trigger()
    assert run.answer(user("ann"), "Reject").status_code == 200
    result = run.work()
    assert {result.states[task] for task in ("delete", "purge", "report")} == {"skipped"}
    edit(shop.request(run) / "decision.json", lambda decision: decision.update(answer="Approve"))
    # Airflow uses this XCom to skip these tasks.
    skipped = run.path("taskInstances/approve/xcomEntries/skipmixin_key")
    assert user("bob").delete(skipped).status_code == 204
    assert run.clear(user("bob"), "delete", "purge", "report").status_code == 200
    assert "has a wrong seal: it was edited" in shop.refusal(run)


def test_a_decision_of_another_request_is_refused(shop: Shop) -> None:
    run, other = shop.trigger(2), shop.approved(7)
    (shop.request(run) / "decision.json").write_bytes((shop.request(other) / "decision.json").read_bytes())
    assert run.mark_success(user("bob"), "approve").status_code == 200
    assert "was copied from" in shop.refusal(run)


def test_a_decision_that_is_sealed_with_another_key_is_refused(shop: Shop) -> None:
    run, other = shop.trigger(2), shop.approved(7)
    pointer = run.xcom(user("bob"), "locate")
    decision = json.loads((shop.request(other) / "decision.json").read_text())["document"]
    forged = {**decision, **{key: pointer[key] for key in ("request", "digest")}, "run_id": run.run_id}
    Ledger(LocalStore(str(shop.root / "ledger")), "guessed-0123456789abcdef0123456789").put(
        pointer["request"], "decision", forged
    )
    assert run.mark_success(user("bob"), "approve").status_code == 200
    assert "is sealed with the key" in shop.refusal(run)


def test_the_requester_may_not_answer(shop: Shop) -> None:
    run = shop.trigger(by="bob")
    assert run.answer(user("bob")).status_code == 403
    assert run.work().states["approve"] == "awaiting_input"

    # An approver who has requested the erasure herself.
    own = shop.trigger(by="ann")
    assert own.answer(user("ann")).status_code == 200
    assert "'ann' has triggered the run and answered" in shop.refusal(own, "approve")


@pytest.mark.parametrize(("name", "role"), [("eve", "USER"), ("otto", "OP"), ("root", "ADMIN")])
def test_only_the_approvers_in_the_registry_may_answer(shop: Shop, name: str, role: str) -> None:
    run = shop.trigger()
    assert run.answer(user(name, role)).status_code == 403
    assert_nothing_done(run.work())


def test_an_approver_who_was_taken_out_of_the_registry_does_not_count(shop: Shop) -> None:
    run = shop.approved()
    file = shop.root / "lakehouse.json"
    body = json.loads(file.read_text())
    body["subjects"]["customer"]["approvers"] = ["zoe"]
    file.write_text(json.dumps(body))
    assert "'ann' answered request" in (log := shop.refusal(run))
    assert "one of the registry's approvers, zoe" in log


def test_a_run_that_no_user_has_triggered_is_refused(shop: Shop) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    run = ApiRun(user("bob"), DAG, {"customer_id": 2})
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run.run_id).values(triggering_user_name=None))
    assert "has no requester" in shop.refusal(run, "locate")


def test_an_old_answer_does_not_count_for_a_new_plan(shop: Shop) -> None:
    run = shop.approved()
    before = run.xcom(user("bob"), "locate")["request"]
    assert run.clear(user("bob"), "locate").status_code == 200
    run.work(only="locate")
    request = run.xcom(user("bob"), "locate")["request"]
    assert request != before
    assert f"has asked about request {before}, and XCom points to request {request}" in shop.refusal(run)

    # The task that asked cannot be made to ask about the new plan either: Airflow would show the old question.
    assert run.clear(user("bob"), "approve").status_code == 200
    assert "cannot ask about" in shop.refusal(run, "approve")


def test_a_new_run_with_the_id_of_an_approved_one_is_refused(shop: Shop) -> None:
    old = shop.approved(2)
    assert user("bob").patch(old.path(), json={"state": "failed"}).status_code == 200
    assert user("bob").delete(old.path()).status_code == 204
    run = ApiRun(user("bob"), DAG, {"customer_id": 7}, run_id=old.run_id)
    assert "has asked about request" in shop.refusal(run, "approve")
    assert run.mark_success(user("bob"), "approve").status_code == 200
    assert "has asked about request" in shop.refusal(run)


def test_a_viewer_changes_nothing(shop: Shop) -> None:
    vic, run = user("vic", "VIEWER"), shop.trigger()
    tried = {
        "trigger": vic.post(f"/api/v2/dags/{DAG}/dagRuns", json={"conf": {"customer_id": 2}, "logical_date": None}),
        "edit": run.edit_xcom(vic, "locate", {}),
        "forge": run.add_xcom(vic, "approve", {}),
        "mark": run.mark_success(vic, "approve"),
        "clear": run.clear(vic, "locate"),
        "answer": run.answer(vic),
    }
    assert {name: answer.status_code for name, answer in tried.items()} == dict.fromkeys(tried, 403)
    assert run.work().states["approve"] == "awaiting_input"
