"""The state of DAGs and of their runs in Airflow's database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import ColumnElement, func, select, tuple_

from lakehouse_airflow.pages.views.commit import Task

#: The state of a task that waits for a person's answer. Airflow has this state since 3.3.
_AWAITS_INPUT = "awaiting_input"


@dataclass(frozen=True)
class DagState:
    """The state of a DAG.

    Attributes:
        exists: Airflow has parsed the DAG.
        next_run: the time of the next scheduled run, ms since the epoch; None: the DAG is paused or has no schedule.
        active_runs: the number of queued and running runs.
    """

    exists: bool
    is_paused: bool = False
    next_run: int | None = None
    active_runs: int = 0


@dataclass(frozen=True)
class RunState:
    """A DAG run.

    Attributes:
        user: the user who has triggered the run; None: no user has.
        queued_at: ms since the epoch; None: not known.
        question: the task that waits for a person's answer; None: there is none.
    """

    dag_id: str
    run_id: str
    state: str
    user: str | None
    queued_at: int | None
    question: Task | None = None


def newest_runs(dag_ids: Iterable[str], most: int) -> list[RunState]:
    """The newest runs of these DAGs, newest first.

    Args:
        most: the largest number of runs.
    """
    return _runs(DagRun.dag_id.in_(sorted(set(dag_ids))), most)


def runs_named(names: Iterable[tuple[str, str]]) -> list[RunState]:
    """The runs with these ids, newest first. Runs that Airflow does not have are left out.

    Args:
        names: pairs of DAG id and run id.
    """
    ids = sorted(set(names))
    return _runs(tuple_(DagRun.dag_id, DagRun.run_id).in_(ids), len(ids))


def _runs(condition: ColumnElement[bool], most: int) -> list[RunState]:
    columns = (DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.triggering_user_name)
    with create_session() as session:
        rows = session.execute(
            select(*columns, func.coalesce(DagRun.queued_at, DagRun.start_date))
            .where(condition)
            .order_by(DagRun.id.desc())
            .limit(most)
        ).all()
        tasks = session.execute(
            select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index).where(
                TaskInstance.state == _AWAITS_INPUT,
                TaskInstance.dag_id.in_({row[0] for row in rows}),
                TaskInstance.run_id.in_({row[1] for row in rows}),
            )
        ).all()
    question = {(task[0], task[1]): Task(*task, try_number=None) for task in tasks}
    return [
        RunState(*names, str(state), user, _milliseconds(moment), question.get(tuple(names)))
        for *names, state, user, moment in rows
    ]


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def dag_states(dag_ids: Iterable[str]) -> dict[str, DagState]:
    """The state of each of these DAGs."""
    ids = sorted(set(dag_ids))
    active = (DagRunState.QUEUED, DagRunState.RUNNING)
    states = dict.fromkeys(ids, DagState(exists=False))
    with create_session() as session:
        rows = session.execute(
            select(DagModel.dag_id, DagModel.is_paused, DagModel.next_dagrun_create_after).where(
                DagModel.dag_id.in_(ids), ~DagModel.is_stale
            )
        ).all()
        counts = session.execute(
            select(DagRun.dag_id, func.count())
            .where(DagRun.dag_id.in_(ids), DagRun.state.in_(active))
            .group_by(DagRun.dag_id)
        ).all()
    runs = dict(map(tuple, counts))
    for dag_id, paused, moment in rows:
        next_run = None if paused else _milliseconds(moment)
        states[dag_id] = DagState(True, bool(paused), next_run, runs.get(dag_id, 0))
    return states
