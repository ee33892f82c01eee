"""The question of an approval: its text, its assigned users, its timeout and its notifiers."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from lakehouse_airflow.markdown import code
from tests.airflow.erasure_runs import Run, refuse

HEADLINES: list[str] = []


class Notifier(BaseNotifier):
    """A notifier that records the question's subject."""

    def notify(self, context: Any) -> None:
        HEADLINES.append(context["task"].subject)


def make_notifier() -> Notifier:
    return Notifier()


def make_nothing() -> None: ...


def set_policy(registry_file: Path, **policy: Any) -> None:
    body = json.loads(registry_file.read_text())
    body["subjects"]["customer"].update(policy)
    registry_file.write_text(json.dumps(body))


@pytest.fixture
def questions(tables: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The questions that Airflow was given to show."""
    details: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: details.append(question))
    return details


def ask(run: Run) -> TaskAwaitingInput:
    operator = run.approval()
    run.context["task"] = operator
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator.execute(run.context)
    return waiting.value


def test_the_registry_sets_the_approvers_and_the_timeout(questions: list[dict[str, Any]], registry_file: Path) -> None:
    set_policy(registry_file, approvers=["ann", "7"], response_hours=1.5)
    run = Run()
    run.look()
    waiting = ask(run)
    assert waiting.timeout == timedelta(minutes=90)
    assert waiting.kwargs == {name: run.left["locate"][name] for name in ("request", "digest")}
    (question,) = questions
    assert question["assigned_users"] == [{"id": "ann", "name": "ann"}, {"id": "7", "name": "7"}]
    assert (question["options"], question["defaults"]) == (["Approve", "Reject"], None)


def test_the_question_lists_the_rows_to_delete_without_the_identifier(
    questions: list[dict[str, Any]], tables: Path
) -> None:
    refuse(tables, order="9", customer="2")
    run = Run(2, user="bob`[x](http://e.example)")
    run.look()
    ask(run)
    (question,) = questions
    assert question["subject"] == f"Erase the customer of request {run.request}?"
    assert run.left["locate"]["person"][:16] in question["body"]
    assert "by `` bob`[x](http://e.example) ``" in question["body"]
    for line in (
        "* orders: 1 rows in 1 files",
        "* customer: 0 rows in 0 files",
        "* orders_quarantine: 1 rows in 1 files",
    ):
        assert line in question["body"].splitlines()


def test_edits_in_xcom_do_not_reach_the_question(questions: list[dict[str, Any]]) -> None:
    run = Run()
    run.look()
    run.left["locate"] |= {"subject": "[x](http://e.example)", "person": "eve"}
    ask(run)
    assert "e.example" not in str(questions)
    assert "eve" not in str(questions)


def test_a_notifier_of_the_registry_is_called(questions: list[dict[str, Any]], registry_file: Path) -> None:
    HEADLINES.clear()
    set_policy(registry_file, notifiers=[f"{__name__}:make_notifier", f"{__name__}:Notifier"])
    run = Run()
    run.look()
    ask(run)
    assert [f"Erase the customer of request {run.request}?"] * 2 == HEADLINES


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("no_such_module:make", "notifier 'no_such_module:make' cannot be imported: No module named"),
        (f"{__name__}:no_such_name", "cannot be imported: module .* has no attribute 'no_such_name'"),
        (f"{__name__}:make_nothing", "made a NoneType; expected an Airflow notifier"),
    ],
)
def test_a_notifier_that_cannot_be_created_fails_the_task(
    questions: list[dict[str, Any]], registry_file: Path, reference: str, reason: str
) -> None:
    set_policy(registry_file, notifiers=[reference])
    run = Run()
    run.look()
    with pytest.raises(AirflowFailException, match=reason):
        run.approval().execute(run.context)
    assert questions == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", "` a `"),
        ("a\nb", "` a b `"),
        ("`", "`` ` ``"),
        ("a``b`", "``` a``b` ```"),
        ("[x](http://e.example) <b>", "` [x](http://e.example) <b> `"),
    ],
)
def test_foreign_texts_are_shown_as_code(text: str, shown: str) -> None:
    assert code(text) == shown
