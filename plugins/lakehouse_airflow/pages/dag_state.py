"""The state of DAGs in Airflow's database."""

from __future__ import annotations

from collections.abc import Iterable
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
        next_run: when its schedule starts it next, ms since the epoch; None: it is paused, or has no schedule.
        active_runs: its queued and running runs.
    """

    exists: bool
    is_paused: bool = False
    next_run: int | None = None
    active_runs: int = 0


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
        next_run = None if moment is None or paused else int(moment.timestamp() * 1000)
        states[dag_id] = DagState(True, bool(paused), next_run, runs.get(dag_id, 0))
    return states
