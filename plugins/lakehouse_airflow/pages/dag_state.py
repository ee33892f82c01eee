"""The state of the maintenance DAG in Airflow's database."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import func, select


@dataclass(frozen=True)
class DagState:
    """The state of a DAG.

    Attributes:
        exists: Airflow has parsed the DAG.
        next_run: when its schedule starts it next, ms since the epoch; None: it has no schedule.
        active_runs: its queued and running runs.
    """

    exists: bool
    is_paused: bool = False
    next_run: int | None = None
    active_runs: int = 0


def dag_state(dag_id: str) -> DagState:
    """The state of a DAG."""
    active = (DagRunState.QUEUED, DagRunState.RUNNING)
    with create_session() as session:
        match = session.execute(
            select(DagModel.is_paused, DagModel.next_dagrun_create_after).where(
                DagModel.dag_id == dag_id, ~DagModel.is_stale
            )
        ).one_or_none()
        if match is None:
            return DagState(exists=False)
        runs = session.scalar(
            select(func.count()).select_from(DagRun).where(DagRun.dag_id == dag_id, DagRun.state.in_(active))
        )
    paused, moment = match
    next_run = None if moment is None or paused else int(moment.timestamp() * 1000)
    return DagState(True, bool(paused), next_run, runs or 0)
