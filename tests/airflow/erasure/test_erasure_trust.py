"""After any edit of a user, an erasure ends in a refusal with a reason, and every table is unchanged."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.errors import LedgerError
from lakehouse_lib.ledger import digest
from tests.airflow.conftest import LEDGER_KEY
from tests.airflow.erasure_runs import ANN, Run, append, asked_by, edit, ledger, on_disk, versions
from tests.peers import parquet_files
from tests.slow_cases import some_slow

FORGED = {
    "chosen_options": ["Approve"],
    "responded_by_user": {"id": "ann", "name": "ann"},
    "responded_at": "2099-01-01",
}


@pytest.fixture
def folder(registry_file: Path) -> Path:
    """The ledger's folder."""
    return registry_file.parent / "ledger"


def refuses(tables: Path, run: Run, reason: str) -> None:
    """Check that deleting, purging and reporting are refused for that reason, and that nothing changes."""
    before = versions(tables), parquet_files(tables)
    for task in (run.delete, run.purge, run.report):
        with pytest.raises(AirflowFailException, match=reason):
            task()
    assert (versions(tables), parquet_files(tables)) == before


def test_a_forged_answer_is_refused(tables: Path) -> None:
    run = Run()
    run.look()
    run.left["approve"] = FORGED
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. this run has asked nothing yet")
    asked_by(run.approval(), run.context)
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. request .* has no decision in the ledger")


@pytest.mark.parametrize(
    ("edited", "reason"),
    [
        (None, "returned no request"),
        ("Approve", "returned no request"),
        ([], "returned no request"),
        ({}, "returned no request"),
        ({"request": 7, "digest": "x"}, "returned no request"),
        ({"request": "../../etc", "digest": "x"}, "request id '../../etc' is not valid"),
        ({"request": "0" * 20, "digest": "x"}, "request 00000000000000000000 has no plan in the ledger"),
        ({"digest": "0" * 64}, "has the digest"),
    ],
)
def test_an_edited_pointer_is_refused(tables: Path, edited: Any, reason: str) -> None:
    run = Run()
    run.locate()
    pointer = run.left["locate"]
    run.left["locate"] = {**pointer, **edited} if edited == {"digest": "0" * 64} else edited
    refuses(tables, run, reason)


def approved(customer: int = 1, **options: Any) -> Run:
    run = Run(customer, **options)
    run.locate()
    return run


def test_the_approved_request_of_another_run_is_refused(tables: Path) -> None:
    other, run = approved(1), approved(2)
    run.left = other.left
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. the plan of request .* has the run_id .*; expected this run's")


def test_the_approved_request_of_another_dag_is_refused(tables: Path) -> None:
    other, run = approved(1, run_id="same"), Run(2, run_id="same")
    run.context["dag_run"].dag_id = "another"
    run.left = other.left
    refuses(
        tables,
        run,
        "LAKEHOUSE_NOT_APPROVED. the plan of request .* has the dag_id .lakehouse_erasure_customer.; expected this",
    )


def test_the_approved_request_of_another_requester_is_refused(tables: Path) -> None:
    other, run = approved(1, run_id="same"), Run(2, run_id="same", user="eve")
    run.left = other.left
    refuses(
        tables, run, "LAKEHOUSE_NOT_APPROVED. the plan of request .* has the requester 'bob'; expected this run's 'eve'"
    )


@pytest.mark.parametrize("run_id", some_slow(["../../x", "é\n\x00", "a/b", '"}', "x" * 240], 2))
def test_a_run_id_may_be_any_text(tables: Path, folder: Path, run_id: str) -> None:
    run = approved(2, run_id=run_id)
    run.finish()
    assert on_disk(tables / "orders") == [1]
    assert {path.parent for path in folder.iterdir()} == {folder}


def test_an_earlier_request_of_the_run_without_a_question_is_refused(tables: Path) -> None:
    run = Run()
    run.look()
    first = dict(run.left["locate"])
    run.locate()  # cleared before the question was asked
    run.left["locate"] = first
    refuses(
        tables,
        run,
        f"LAKEHOUSE_NOT_APPROVED. this run has asked about request .*, and XCom points to request {first['request']}",
    )


def test_a_request_swapped_before_the_answer_is_not_approved(tables: Path) -> None:
    run = Run()
    run.look()
    shown = run.request
    operator = run.approval()
    other = Run(1, run_id=run.context["dag_run"].run_id)
    other.look()
    answer = run.answer  # asks about the plan that is now in XCom
    original = operator.pointer

    def swap_after_asking(context: Any, ledger: Any) -> Any:
        pointer = original(context, ledger)
        run.left["locate"] = other.left["locate"]
        return pointer

    operator.pointer = swap_after_asking  # type: ignore[method-assign]
    run.approval = lambda: operator  # type: ignore[method-assign]
    assert answer()["request"] == shown
    refuses(tables, run, f"LAKEHOUSE_NOT_APPROVED. this run has asked about request {shown}")


def swap_id(keys: dict[str, Any]) -> None:
    keys["id"] = 1
    for table in keys["tables"].values():
        for column in table["keys"]["columns"]:
            column["values"] = [1]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("plan", lambda plan: plan["tables"][0].update(uri="/somewhere/else")),
        ("plan", lambda plan: plan.update(requester="eve")),
        ("keys", swap_id),
        ("decision", lambda decision: decision.update(answer="Approve ")),
        ("decision", lambda decision: decision["approver"].update(id="eve")),
    ],
)
def test_an_edited_document_is_refused(tables: Path, folder: Path, name: str, change: Any) -> None:
    run = approved(2)
    edit(folder / run.request / f"{name}.json", change)
    edited = f"the document {run.request}/{name}.json .* has a wrong seal: it was edited"
    refuses(tables, run, rf"^LedgerError: \[DELTA_LEDGER_INVALID\] {edited}")


def test_keys_that_are_not_those_of_the_plan_are_refused(tables: Path) -> None:
    """The keys are sealed with the right key, as by a task of another version."""
    run = approved(2)
    keys = ledger().read(run.request, "keys")
    swap_id(keys)
    ledger().delete(run.request, "keys")
    ledger().put(run.request, "keys", keys)
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. the keys of request .* do not belong to its plan")


@pytest.mark.parametrize("name", ["plan", "keys", "decision"])
def test_a_document_of_another_request_is_refused(tables: Path, folder: Path, name: str) -> None:
    other, run = approved(1), approved(2)
    shutil.copy(folder / other.request / f"{name}.json", folder / run.request / f"{name}.json")
    refuses(tables, run, f"^LedgerError: .*/{name}.json .* was copied from '{other.request}/{name}.json'")


@pytest.mark.parametrize("name", ["plan", "keys", "decision"])
def test_a_missing_document_is_refused(tables: Path, folder: Path, name: str) -> None:
    run = approved(2)
    (folder / run.request / f"{name}.json").unlink()
    refuses(tables, run, f"{run.request}")


def test_a_document_sealed_by_another_key_is_refused(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = approved(2)
    other = {"conn_type": "lakehouse", "password": "another-key-of-the-tests-0123456789"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER", json.dumps(other))
    refuses(tables, run, "^LedgerError: .* is sealed with the key")


def test_a_decision_about_another_plan_is_refused(tables: Path, folder: Path) -> None:
    """The decision is made with the right key, as by a task of an older version, so the seal is not enough."""
    run = Run()
    run.look()
    asked_by(run.approval(), run.context)
    plan = run.plan()
    decision = {"request": run.request, "digest": "0" * 64, "answer": "Approve", "approver": ANN}
    decision |= {name: plan[name] for name in ("dag_id", "run_id", "requester")}
    ledger().put(run.request, "decision", decision)
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. the decision of request .* is about another plan")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"by": {"id": "bob", "name": "bob"}}, "the user 'bob' answered request .*; expected one of .* ann"),
        ({"by": {"id": "eve", "name": "ann"}}, "the user 'eve' answered request"),
        ({"by": None}, "names no user"),
        ({"by": {"id": "", "name": "ann"}}, "names no user"),
        ({"by": {"name": "ann"}}, "names no user"),
        ({"chosen_options": []}, r"is \[\]; expected Approve or Reject"),
        ({"chosen_options": ["Approve", "Reject"]}, "expected Approve or Reject"),
        ({"chosen_options": ["approve"]}, "expected Approve or Reject"),
        ({"responded_at": datetime.now(UTC) - timedelta(days=1)}, "was answered at .*; expected a time after its plan"),
        ({"responded_at": datetime(2999, 1, 1)}, "was answered at"),
        ({"responded_at": None}, "was answered at None"),
        ({"error": "The response timeout has passed.", "error_type": "timeout"}, "has no answer: The response timeout"),
    ],
)
def test_an_answer_that_does_not_count_is_refused_and_leaves_no_decision(
    tables: Path, folder: Path, answer: dict[str, Any], reason: str
) -> None:
    run = Run()
    run.look()
    with pytest.raises(AirflowFailException, match=f"LAKEHOUSE_NOT_APPROVED. .*{reason}"):
        run.answer(**answer)
    assert not (folder / run.request / "decision.json").exists()
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. request .* has no decision in the ledger")


@pytest.mark.parametrize("approver", some_slow([{"id": "7", "name": "bob"}, {"id": "bob", "name": "Bob B."}], 1))
def test_a_requester_may_not_approve_unless_the_registry_permits_it(
    tables: Path, registry_file: Path, approver: dict[str, str]
) -> None:
    body = json.loads(registry_file.read_text())
    body["subjects"]["customer"]["approvers"] = ["7", "bob"]
    registry_file.write_text(json.dumps(body))
    run = Run()
    run.look()
    with pytest.raises(
        AirflowFailException, match=r"has triggered the run and answered request .* expected the answer of another"
    ):
        run.answer(by=approver)
    refuses(tables, run, "has no decision")
    body["subjects"]["customer"]["four_eyes"] = False
    registry_file.write_text(json.dumps(body))
    run.answer(by=approver)
    run.finish()
    assert on_disk(tables / "orders") == [1]


def test_an_approver_who_was_taken_out_of_the_registry_does_not_count(tables: Path, registry_file: Path) -> None:
    run = approved(2)
    registry_file.write_text(registry_file.read_text().replace('["ann"]', '["eve"]'))
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. the user 'ann' answered request .*; expected one of .* eve")


def test_a_table_that_was_dropped_from_the_subject_is_refused(tables: Path, registry_file: Path) -> None:
    run = approved(2)
    body = json.loads(registry_file.read_text())
    del body["subjects"]["customer"]["rows"][2]
    registry_file.write_text(json.dumps(body))
    refuses(tables, run, "lineitem is not a table of the subject customer any more")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"subject": "buyer"}, "is about a buyer; expected a customer"),
        ({"kind": "repair"}, "has a plan of the kind 'repair'; expected 'erasure'"),
    ],
)
def test_a_plan_of_another_subject_is_refused(tables: Path, folder: Path, change: dict[str, str], reason: str) -> None:
    run = approved(2)
    plan = run.plan() | change
    shutil.rmtree(folder / run.request)
    ledger().put(run.request, "plan", plan)
    run.left["locate"]["digest"] = digest(plan)
    refuses(tables, run, reason)


def test_a_rejection_deletes_only_the_keys_and_is_final(tables: Path, folder: Path) -> None:
    run = Run()
    run.look()
    assert (folder / run.request / "keys.json").exists()
    run.context["task"] = None
    assert run.answer("Reject")["answer"] == "Reject"
    assert not (folder / run.request / "keys.json").exists()
    refuses(tables, run, "LAKEHOUSE_NOT_APPROVED. the answer to request .* is 'Reject'")
    again = run.approval().execute(run.context)
    assert again["answer"] == "Reject"


def test_a_question_expires_after_its_time(tables: Path, folder: Path) -> None:
    run = Run()
    run.look()
    with pytest.raises(AirflowFailException):
        run.answer(error="The response timeout has passed.", error_type="timeout")
    assert not (folder / run.request / "keys.json").exists()
    with pytest.raises(AirflowFailException, match=f"request {run.request} is over and its keys are deleted"):
        run.approval().execute(run.context)


def test_clearing_the_task_does_not_change_a_decision(tables: Path) -> None:
    run = Run()
    run.look()
    answered = run.answer()
    assert run.approval().execute(run.context) == answered


def test_a_refused_answer_can_be_followed_by_a_valid_one(tables: Path) -> None:
    run = Run()
    run.look()
    with pytest.raises(AirflowFailException, match="the user 'eve' answered"):
        run.answer(by={"id": "eve", "name": "eve"})
    run.answer()
    run.finish()
    assert on_disk(tables / "orders") == [1]


@pytest.mark.parametrize("user", [None, ""])
def test_a_run_that_no_user_has_triggered_is_refused(tables: Path, folder: Path, user: Any) -> None:
    with pytest.raises(AirflowFailException, match="has no requester"):
        Run(user=user).look()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("customer", "mentions", "reason"),
    [
        (0, False, "the param customer_id is not a valid id of a customer; expected a whole number from 1 on"),
        (-7654321, False, "customer_id is not a valid id"),
        ("7 OR TRUE", False, "customer_id is not a valid id"),
        (None, False, "customer_id is not a valid id"),
        (True, False, "customer_id is not a valid id"),
        (2, "yes", "the param erase_mentions is of type str; expected true or false"),
    ],
)
def test_a_param_that_is_not_valid_is_refused_and_not_shown(
    tables: Path, folder: Path, customer: Any, mentions: Any, reason: str
) -> None:
    with pytest.raises(AirflowFailException, match=reason) as error:
        Run(customer, erase_mentions=mentions).look()
    assert "7" not in str(error.value)
    assert not folder.exists()


def test_a_recreated_table_ends_the_run(tables: Path) -> None:
    run = approved(2)
    shutil.rmtree(tables / "orders")
    append(tables / "orders", o_orderkey=[2], o_custkey=[2])
    with pytest.raises(AirflowFailException, match=r"recreated since request .* \(orders\).*trigger the erasure again"):
        run.delete()


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        (None, "the connection 'lakehouse_ledger' is missing; expected one of type 'lakehouse'"),
        ({"conn_type": "aws", "password": "x" * 40}, "the connection 'lakehouse_ledger' is of type 'aws'"),
        ({"conn_type": "lakehouse"}, "the password of the connection 'lakehouse_ledger' has 0 characters; expected at"),
        ({"conn_type": "lakehouse", "password": "hunter2" * 4}, "has 28 characters; expected at least 32"),
    ],
)
def test_a_ledger_without_a_key_is_refused_by_name(
    tables: Path, monkeypatch: pytest.MonkeyPatch, connection: Any, reason: str
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER")
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER", json.dumps(connection))
    with pytest.raises(AirflowFailException, match=reason) as error:
        open_ledger(load_registry())
    assert "hunter2" not in str(error.value)


def test_options_of_the_ledgers_store_are_those_of_its_connection(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"conn_type": "lakehouse", "password": LEDGER_KEY, "extra": {"no_such_option": "1"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER", json.dumps(body))
    with pytest.raises(AirflowFailException, match="no_such_option"):
        Run().look()


def test_an_invalid_request_id_reads_no_document_of_the_ledger(tables: Path) -> None:
    with pytest.raises(LedgerError):
        ledger().read("..", "plan")
