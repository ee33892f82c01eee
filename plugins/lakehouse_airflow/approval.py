"""Whether a person has said yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


def require_approval(context: Context, task_id: str) -> str:
    """The name of the person who approved in the ApprovalOperator ``task_id`` of this DAG run.

    An approval task that is marked success by hand lets its downstream tasks run, but leaves no answer; so whoever is
    about to do what was to be approved asks here.

    Raises:
        AirflowFailException: no answer, another answer, or an answer that no person gave.
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
    return str(person.get("name") or person.get("id")) if isinstance(person, Mapping) else str(person)
