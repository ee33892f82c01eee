"""Runs of the checkout's DAGs under Airflow's own loop, in this process."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class DagRunResult:
    """The result of a run: states and XComs by task id (with ``[i]`` for a mapped task)."""

    def __init__(self, run: Any) -> None:
        from airflow.utils.session import create_session

        self.run_id: str = run.run_id
        self.dag_id: str = run.dag_id
        self.state = str(run.state)
        with create_session() as session:
            tasks = run.get_task_instances(session=session)
            self.states = {_name(ti.task_id, ti.map_index): str(ti.state) for ti in tasks}

    def xcom(self, task_id: str, map_index: int = -1, key: str = "return_value") -> Any:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            value = session.scalar(
                select(XComModel.value).where(
                    XComModel.dag_id == self.dag_id,
                    XComModel.run_id == self.run_id,
                    XComModel.task_id == task_id,
                    XComModel.map_index == map_index,
                    XComModel.key == key,
                )
            )
        try:  # values are kept as JSON, links as text
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            return value

    def asset_events(self) -> dict[str, dict[str, Any]]:
        """{asset URI: extra} of the events that this run has emitted."""
        from airflow.models.asset import AssetEvent, AssetModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            rows = session.execute(
                select(AssetModel.uri, AssetEvent.extra)
                .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
                .where(AssetEvent.source_dag_id == self.dag_id, AssetEvent.source_run_id == self.run_id)
            )
            return dict(rows.all())


def load_dag(dag_id: str) -> Any:
    """A DAG of the checkout, parsed again, because the registry may have changed."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags"), bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    return bag.dags[dag_id]


def run_dag(dag_id: str, conf: dict[str, Any] | None = None, **options: Any) -> DagRunResult:
    """Run a DAG to its end, triggered by the user ``dag_test``; ``DAG.test`` describes the options."""
    return DagRunResult(load_dag(dag_id).test(run_conf=conf, **options))


def run_answered_dag(dag_id: str, conf: dict[str, Any], task_id: str, option: str) -> tuple[DagRunResult, str]:
    """Run a DAG whose task asks a question, and answer it through Airflow's REST API, as a person would.

    Returns the run and the question's text. An error that prevents the answer ends the run and is raised.
    """
    # Create the client here: the thread would import Airflow's server while the run imports the same modules.
    client = api_client()
    over = threading.Event()
    logical_date = datetime.now(UTC)
    with ThreadPoolExecutor(1) as pool:
        question = pool.submit(_answer, client, dag_id, logical_date, task_id, option, over)
        try:
            run = run_dag(dag_id, conf, logical_date=logical_date)
        finally:
            over.set()
    return run, question.result()


def _answer(client: Any, dag_id: str, logical_date: datetime, task_id: str, option: str, over: threading.Event) -> str:
    """Answer the question of this run and return its text; wait until the task asks or the run is over."""
    while not over.wait(0.25):
        try:
            run_id = _asking_run(dag_id, logical_date, task_id)
            if run_id is not None:
                path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
                text: str = client.get(path).json()["body"]
                answer = client.patch(path, json={"chosen_options": [option], "params_input": {}})
                assert answer.status_code == 200, answer.text
                return text
        except BaseException:
            _fail_tasks(dag_id, logical_date)
            raise
    raise AssertionError(f"the task {task_id} of {dag_id} asked nothing before its run was over")


def _asking_run(dag_id: str, logical_date: datetime, task_id: str) -> str | None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    asking = (*_asking(dag_id, logical_date), TaskInstance.task_id == task_id)
    with create_session() as session:
        run_id: str | None = session.scalar(select(TaskInstance.run_id).where(*asking))
        return run_id


def _fail_tasks(dag_id: str, logical_date: datetime) -> None:
    """Fail the run's tasks that wait for an answer, because ``DAG.test`` would wait for it without end."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(TaskInstance).where(*_asking(dag_id, logical_date)).values(state="failed"))


def _asking(dag_id: str, logical_date: datetime) -> tuple[Any, ...]:
    """The condition for tasks of one run that wait for an answer.

    Other runs of the DAG may wait too, because all tests of a process share one metadata database.
    """
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    run = select(DagRun.run_id).where(DagRun.dag_id == dag_id, DagRun.logical_date == logical_date)
    return (TaskInstance.dag_id == dag_id, TaskInstance.run_id.in_(run), TaskInstance.state == "awaiting_input")


def api_client(username: str = "ann", role: str = "ADMIN", *, anonymous: bool = False) -> Any:
    """A client of Airflow's API server in this process, as a user with that role or without a login."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    app = _api_server()
    if anonymous:
        return TestClient(app)
    token = app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username=username, role=role))
    return TestClient(app, headers={"Authorization": f"Bearer {token}"})


@cache
def _api_server() -> Any:
    from airflow.api_fastapi.app import create_app

    return create_app()


def _name(task_id: str, map_index: int) -> str:
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


def let_run(dag_id: str) -> None:
    """Make the DAGs of the checkout known to Airflow, and unpause this DAG."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    manager = DagBundlesManager()
    with create_session() as session:
        manager.sync_bundles_to_db(session=session)
    for bundle in manager.get_all_dag_bundles():
        bundle.initialize()
        bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        sync_bag_to_db(bag, bundle.name, bundle.version)
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=False))


def newest_event() -> int:
    """The id of the newest asset event, or 0."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        return session.scalar(select(func.max(AssetEvent.id))) or 0


def released_runs(dag_id: str, *, after: int = 0) -> list[tuple[str, list[dict[str, Any]]]]:
    """Run the scheduler once, and return (run type, extras of the events that released it) of the DAG's runs.

    Args:
        after: the id of an event; this event and older events are left out, because a DAG's first run consumes the
            events of all tests.
    """
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.sqlalchemy import prohibit_commit
    from sqlalchemy import select

    with create_session() as session, prohibit_commit(session) as guard:
        SchedulerJobRunner(job=Job())._create_dagruns_for_dags(guard, session)
        guard.commit()
    with create_session() as session:
        runs = session.scalars(
            select(DagRun).where(DagRun.dag_id == dag_id, DagRun.triggered_by != "TEST").order_by(DagRun.id)
        )
        return [
            (str(run.run_type), [event.extra for event in run.consumed_asset_events if event.id > after])
            for run in runs
        ]
