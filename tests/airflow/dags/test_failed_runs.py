"""The policy of the registry for failed runs: retries, timeouts and notifiers."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from airflow.callbacks.callback_requests import DagCallbackRequest
from airflow.dag_processing.dagbag import DagBag
from airflow.dag_processing.processor import _execute_dag_callbacks
from airflow.sdk import BaseNotifier

from tests.airflow.dag_runs import ROOT

CALLS: list[tuple[str, str]] = []


class Recorder(BaseNotifier):
    """Records a template that was rendered for the run, and the reason."""

    template_fields = ("subject",)

    def __init__(self) -> None:
        super().__init__()
        self.subject = "{{ dag.dag_id }} of {{ run_id }} has failed"

    def notify(self, context: Any) -> None:
        CALLS.append((self.subject, context["reason"]))


@pytest.mark.parametrize(("dag_id", "task_id"), [("lakehouse_ingest", "ingest"), ("lakehouse_maintenance", "plan")])
def test_a_failed_run_calls_the_notifiers_of_the_registry(registry_file: Path, dag_id: str, task_id: str) -> None:
    body = json.loads(registry_file.read_text())
    policy = {"retries": 0, "execution_timeout_minutes": 5, "notifiers": [f"{__name__}:Recorder"]}
    registry_file.write_text(json.dumps({**body, "defaults": {"airflow": policy}}))
    bag = DagBag(dag_folder=str(ROOT / "dags"), bundle_name="dags-folder")
    task = bag.dags[dag_id].get_task(task_id)
    assert (task.retries, task.execution_timeout) == (0, timedelta(minutes=5))
    # What the DAG processor does when the scheduler reports that a run has failed.
    request = DagCallbackRequest(
        filepath="lakehouse.py",
        dag_id=dag_id,
        run_id="r1",
        bundle_name="dags-folder",
        bundle_version=None,
        is_failure_callback=True,
        msg="task_failure",
    )
    CALLS.clear()
    _execute_dag_callbacks(bag, request, structlog.get_logger())
    assert [(f"{dag_id} of r1 has failed", "task_failure")] == CALLS
