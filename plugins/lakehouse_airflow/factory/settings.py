"""Arguments of DAGs and of operators, from the settings of the registry."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from typing import Any

from airflow.sdk import Asset
from croniter import CroniterError, croniter

from lakehouse_airflow.assets import lakehouse_asset
from lakehouse_airflow.operators.base.notifiers import notifier_of
from lakehouse_lib.fleet.registry import DagSettings, DagShare, Registry

#: The retries of a task. A retry helps after a lost race or a lost executor. An error in the input is not retried.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

TAG = "lakehouse"

#: Arguments of all DAGs. ``lakehouse_dags`` registers a DAG after its factory has succeeded, because Airflow would also
#: register the incomplete DAG of a factory that has failed.
COMMON: dict[str, Any] = {"catchup": False, "auto_register": False}


def dag_id_of(kind: str, share: DagShare) -> str:
    """The id of the DAG of a share: ``lakehouse_KIND``, or ``lakehouse_KIND_NAME`` for a share with a name."""
    return f"lakehouse_{kind}" if share.name is None else f"lakehouse_{kind}_{share.name}"


def erasure_dag_id(subject: str) -> str:
    """The id of the DAG that erases a person of this subject."""
    return f"lakehouse_erasure_{subject}"


@cache
def valid_schedule(schedule: str | None) -> str | None:
    """The schedule of a DAG, if it has a date.

    Airflow computes the next date after it has parsed the DAG file. If this fails, it starts no DAG of the file.

    Raises:
        ValueError: the schedule has no date, such as ``0 0 30 2 *``.
    """
    if schedule is not None and not schedule.startswith("@"):
        try:
            croniter(schedule).get_next()
        except CroniterError as error:
            raise ValueError(f"the schedule {schedule!r} has no date; expected one with a next run") from error
    return schedule


def dag_arguments(settings: DagSettings) -> dict[str, Any]:
    """Arguments of a DAG that has one active run at a time.

    Raises:
        AirflowFailException: a notifier cannot be made.
    """
    task_settings = {
        "owner": settings.owner,
        "retries": settings.retries,
        "execution_timeout": _minutes(settings.execution_timeout_minutes),
    }
    return {
        **COMMON,
        "max_active_runs": 1,
        "default_args": {**RETRIES, **{name: value for name, value in task_settings.items() if value is not None}},
        "tags": [TAG, *settings.tags],
        "dagrun_timeout": _minutes(settings.timeout_minutes),
        "on_failure_callback": [notifier_of(reference) for reference in settings.notifiers] or None,
        "is_paused_upon_creation": settings.paused,
    }


def _minutes(count: float | None) -> timedelta | None:
    return None if count is None else timedelta(minutes=count)


def table_assets(registry: Registry, tables: Iterable[str]) -> list[Asset]:
    """The assets of registered tables, as inlets or outlets of a task."""
    return [lakehouse_asset(registry.table(name).uri) for name in tables]


def job_arguments(settings: DagSettings) -> dict[str, Any]:
    """Arguments of operators that submit Spark jobs. The hook finds the connection of a table in the registry."""
    arguments = {
        "spark_conn_id": settings.spark_conn_id,
        "spark_conf": settings.spark_conf or None,
        "driver_memory": settings.driver_memory,
        "pool": settings.pool,
    }
    return {name: value for name, value in arguments.items() if value is not None}
