"""The pages of erasures: what the ledger has, with checked seals, and never a person's id."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakehouse_airflow.pages.dag_state import RunState
from lakehouse_airflow.pages.views.commit import Task
from lakehouse_airflow.pages.views.erasure import Documents, erasure_rows, status_of
from tests.airflow.conftest import LEDGER_KEY
from tests.airflow.dag_runs import api_client
from tests.airflow.erasure_runs import Run, append, ledger

pytestmark = pytest.mark.usefixtures("airflow_db")

PERSON = 90218
BROWSER = {"Accept": "text/html"}


@pytest.fixture
def person(tables: Path) -> Run:
    """A run for a person with two orders, whose rows are located."""
    append(tables / "customer", c_custkey=[PERSON])
    append(tables / "orders", o_orderkey=[771, 772], o_custkey=[PERSON, PERSON])
    run = Run(PERSON)
    run.look()
    return run


def page_of(run: Run) -> str:
    return f"/lakehouse/erasures/customer/{run.request}"


@pytest.mark.slow
def test_a_finished_erasure_has_its_record_and_no_id_of_the_person(person: Run) -> None:
    person.answer()
    person.finish()
    viewer = api_client("vic", "VIEWER")
    page = viewer.get(page_of(person))
    assert page.status_code == 200, page.text
    assert 'Status: <strong class="done">erased' in page.text
    assert "<td>Approve: " in page.text
    assert re.search(r"orders</a></th>\s*<td class=\"number\">2</td>\s*<td class=\"number\">2</td>", page.text)
    assert "2 → 0" in page.text  # rows on disk
    assert "values may still be" in page.text
    assert (
        '<a href="/lakehouse/tables/orders/versions/1">1</a> → <a href="/lakehouse/tables/orders/versions/2">'
        in page.text
    )
    record = ledger().read(person.request, "record")
    assert all(file["sha256"] in page.text for table in record["tables"] for file in table["files_removed"])
    listed = viewer.get("/lakehouse/erasures").text
    assert f'<a href="{page_of(person)}">' in listed
    for text in (page.text, listed):
        assert not {str(PERSON), "771", "772"} & set(re.findall(r"\b\d+\b", text))
        assert LEDGER_KEY not in text


def test_an_erasure_without_an_answer_shows_its_plan(person: Run) -> None:
    page = api_client().get(page_of(person)).text
    assert "<h2>Plan</h2>" in page
    assert '<tr><th scope="row">Answered</th><td>–</td></tr>' in page
    assert "was deleted" in page  # this run is not in Airflow's database


def test_the_page_of_a_rejected_erasure_shows_the_rejection(person: Run) -> None:
    person.answer("Reject")
    assert ">rejected</strong>" in api_client().get(page_of(person)).text


def test_an_edited_document_is_not_shown_as_a_record(person: Run, registry_file: Path) -> None:
    plan = registry_file.parent / "ledger" / person.request / "plan.json"
    plan.write_text(plan.read_text().replace("bob", "eve"))
    page = api_client().get(page_of(person), headers=BROWSER)
    assert page.status_code == 500
    assert "wrong seal" in page.text
    other = Run(1)
    other.look()
    listed = api_client().get("/lakehouse/erasures").text
    assert "wrong seal" in listed
    assert page_of(other) in listed
    assert page_of(person) not in listed


def test_without_the_key_the_pages_show_an_error(person: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER")
    listed = api_client().get("/lakehouse/erasures")
    assert listed.status_code == 200
    assert "lakehouse_ledger" in listed.text
    assert person.request not in listed.text
    page = api_client().get(page_of(person), headers=BROWSER)
    assert (page.status_code, "lakehouse_ledger" in page.text) == (503, True)


@pytest.mark.parametrize("path", ["customer/" + "0" * 20, "customer/%2e%2e", "customer/<b>", "nobody/" + "0" * 20])
def test_an_unknown_request_is_answered_with_404(person: Run, path: str) -> None:
    answer = api_client().get(f"/lakehouse/erasures/{path}", headers=BROWSER)
    assert answer.status_code == 404
    assert "<b>" not in answer.text


def test_an_erasure_is_shown_to_those_who_may_read_its_dag(person: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    eve = api_client("eve", "VIEWER")
    manager = type(eve.app.state.auth_manager)
    monkeypatch.setattr(manager, "is_authorized_dag", lambda self, *, details, **other: details.id == "other")
    assert eve.get(page_of(person)).status_code == 403
    listed = eve.get("/lakehouse/erasures").text
    assert person.request not in listed
    assert "no subject whose DAG you may read" in listed


def test_a_request_about_a_repair_is_not_listed_as_an_erasure(person: Run) -> None:
    plan: dict[str, Any] = {**json.loads(json.dumps(person.plan())), "kind": "repair"}
    without_subject = {key: value for key, value in plan.items() if key != "subject"}  # as the plan of a repair
    client = api_client()
    for request, document in (("f" * 20, plan), ("e" * 20, without_subject)):
        ledger().put(request, "plan", {**document, "request": request})
        page = client.get(f"/lakehouse/erasures/customer/{request}", headers=BROWSER)
        assert page.status_code == 404
        assert f"the ledger has no request {request} about a customer" in page.text
        assert request not in client.get("/lakehouse/erasures").text


def run_in(state: str, *, asking: bool = False) -> RunState:
    task = Task("d", "r", "approve", -1, None) if asking else None
    return RunState("d", "r", state, "bob", 1, task)


APPROVED = {"answer": "Approve", "approver": {"id": "1", "name": "ann"}}


@pytest.mark.parametrize(
    ("decision", "record", "run", "text"),
    [
        (None, None, run_in("running"), "is being planned"),
        (None, None, run_in("running", asking=True), "waits for an answer"),
        (APPROVED, None, run_in("running"), "is being erased"),
        (APPROVED, None, run_in("failed"), "failed"),
        (APPROVED, None, run_in("success"), "not finished"),
        (APPROVED, None, None, "not finished"),
        (APPROVED, {}, None, "erased"),
        ({"answer": "Reject"}, None, run_in("success"), "rejected"),
    ],
)
def test_the_status_is_that_of_the_ledger_and_then_of_the_run(decision: Any, record: Any, run: Any, text: str) -> None:
    assert status_of(Documents({}, decision, record), run).text == text


def test_a_run_that_has_made_no_request_is_listed() -> None:
    (row,) = erasure_rows([], [run_in("failed")], {"d": "customer"})
    assert (row.request, row.status.text, row.requester) == (None, "failed", "bob")
    assert erasure_rows([], [run_in("failed")], {"other": "customer"}) == []
