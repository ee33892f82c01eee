"""The fields of commitInfo that name the task of a commit, and the task's application transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context


def task_metadata(context: Context) -> dict[str, Any]:
    """The fields for the commits of a task: ``airflow`` and, if a user has triggered the run, ``userName``.

    ``airflow`` has ``dag_id``, ``run_id``, ``task_id``, ``map_index`` (-1: the task is not mapped) and ``try_number``.
    Empty if the context has no task instance.
    """
    task: Any = context.get("ti")
    if task is None:
        return {}
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
    user = getattr(context.get("dag_run"), "triggering_user_name", None)
    return {"airflow": {name: getattr(task, name) for name in names}, **({"userName": user} if user else {})}


def task_application(context: Context) -> str | None:
    """The application id of a task, ``airflow:DAG:RUN:TASK:MAP_INDEX``; None if the context has no task instance.

    All tries of a task in a DAG run have the same id, so the task changes rows at most once.
    """
    task: Any = context.get("ti")
    if task is None:
        return None
    # Only a run id may contain a colon, so different tasks have different ids.
    return f"airflow:{task.dag_id}:{task.run_id}:{task.task_id}:{task.map_index}"
