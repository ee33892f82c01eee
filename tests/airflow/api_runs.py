"""DAG runs triggered through the REST API and executed step by step, so that a test can act between the steps."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.airflow.dag_runs import DagRunResult, load_dag


class ApiRun:
    """A DAG run triggered by a client's user. Its tasks run in this process, under Airflow's task runner."""

    def __init__(self, client: Any, dag_id: str, conf: dict[str, Any], *, run_id: str | None = None) -> None:
        self.dag = load_dag(dag_id)
        body = {"conf": conf, "logical_date": None, "dag_run_id": run_id}
        answer = client.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        assert answer.status_code == 200, answer.text
        self.dag_id = dag_id
        self.run_id: str = answer.json()["dag_run_id"]

    def path(self, *parts: str) -> str:
        """A path of the REST API below this run."""
        return "/".join([f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id, safe='')}", *parts])

    def xcom(self, client: Any, task_id: str) -> Any:
        """The return value of a task, as the client's user reads it."""
        answer = client.get(self.path(f"taskInstances/{task_id}/xcomEntries/return_value?deserialize=true"))
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def edit_xcom(self, client: Any, task_id: str, value: Any) -> Any:
        """The response to a user who replaces a task's return value."""
        body = {"value": value, "map_index": -1}
        return client.patch(self.path(f"taskInstances/{task_id}/xcomEntries/return_value"), json=body)

    def add_xcom(self, client: Any, task_id: str, value: Any) -> Any:
        """The response to a user who adds an XCom to a task without a return value."""
        body = {"key": "return_value", "value": value, "map_index": -1}
        return client.post(self.path(f"taskInstances/{task_id}/xcomEntries"), json=body)

    def mark_success(self, client: Any, task_id: str) -> Any:
        """The response to a user who marks a task as success."""
        return client.patch(self.path(f"taskInstances/{task_id}"), json={"new_state": "success"})

    def clear(self, client: Any, *task_ids: str) -> Any:
        """The response to a user who clears exactly these tasks."""
        body = {"dag_run_id": self.run_id, "task_ids": task_ids, "dry_run": False, "only_failed": False}
        return client.post(f"/api/v2/dags/{self.dag_id}/clearTaskInstances", json=body)

    def answer(self, client: Any, option: str = "Approve") -> Any:
        """The response to a user who answers the question of the task ``approve``."""
        body = {"chosen_options": [option], "params_input": {}}
        return client.patch(self.path("taskInstances/approve/-1/hitlDetails"), json=body)

    def work(self, *, only: str | None = None) -> DagRunResult:
        """Run the tasks as a scheduler would, until the run has ended or every task waits for a person.

        Args:
            only: the one task to run, if a test acts before the next task.
        """
        from airflow.models.dagrun import DagRun
        from airflow.sdk.definitions.dag import _run_task
        from airflow.serialization.serialized_objects import DagSerialization
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState, TaskInstanceState
        from sqlalchemy import select

        scheduler_dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(self.dag))
        with create_session() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == self.dag_id, DagRun.run_id == self.run_id))
            run.dag = scheduler_dag
            if run.state == DagRunState.QUEUED:
                run.state = DagRunState.RUNNING
                session.commit()
            while True:
                session.expire_all()
                ready, _ = run.update_state(session=session)
                for task in ready:
                    task.try_number += 1
                    task.state = TaskInstanceState.SCHEDULED
                session.commit()
                waiting = [task for task in run.get_task_instances(session=session) if task.state == "scheduled"]
                chosen = [task for task in waiting if only in (None, task.task_id)]
                if not chosen:
                    return DagRunResult(run)
                for task in chosen:
                    _run_task(ti=task, task=self.dag.task_dict[task.task_id])
