"""Whether a person has said yes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


def require_approval(context: Context, task_id: str, *, asked_after: str | None = None) -> str:
    """The name of the person who approved in the ApprovalOperator ``task_id`` of this DAG run.

    An approval task that is marked success by hand lets its downstream tasks run, but leaves no answer; so whoever is
    about to do what was to be approved asks here.

    Args:
        asked_after: in ISO 8601, when that was found which the person was asked about. A task that is cleared alone
            finds something else, and the answer of before stays.

    Raises:
        AirflowFailException: no answer, another answer, an answer that no person gave, or one of before.
    """
    answer = context["ti"].xcom_pull(task_ids=task_id)
    if not isinstance(answer, Mapping):
        raise AirflowFailException(
            f"not approved: the task {task_id!r} holds no answer of a person (marking it as success is none). Clear it "
            "and answer it"
        )
    if list(answer.get("chosen_options") or ()) != ["Approve"]:
        raise AirflowFailException(f"not approved: the answer to {task_id!r} is {answer.get('chosen_options')}")
    person = answer.get("responded_by_user")
    if not person:
        raise AirflowFailException(f"not approved: no person stands behind the answer to {task_id!r}")
    if asked_after is not None and not _is_later(answer.get("responded_at"), asked_after):
        raise AirflowFailException(
            f"not approved: the answer to {task_id!r} is of {answer.get('responded_at')}, and what it is about was "
            f"found at {asked_after}. Clear {task_id!r} and answer it"
        )
    return str(person.get("name") or person.get("id")) if isinstance(person, Mapping) else str(person)


def _is_later(answered: Any, found: str) -> bool:
    try:
        moment = answered if isinstance(answered, datetime) else datetime.fromisoformat(str(answered))
        return moment >= datetime.fromisoformat(found)
    except (TypeError, ValueError):  # no time, or none with a zone
        return False
