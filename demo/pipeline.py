"""Trigger DAGs, watch their tasks and answer their questions, through Airflow's API."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from demo.errors import DemoError
from demo.home import Home
from demo.progress import Progress
from demo.rest import AirflowApi, Question, Run, Task

POLL_SECONDS = 0.5
PARSE_SECONDS = 90.0
# Airflow 3.3 marks a task as failed if the answer comes before the scheduler has noticed that the task waits.
READING_SECONDS = 5.0
RUN_SECONDS = 900.0
REPORT = "lakehouse_report"
Answer = Callable[[Question], None]
Expected = Callable[[str], str | None]
DAGS = ("lakehouse_ingest", "lakehouse_maintenance", "lakehouse_erasure_customer", REPORT)


@dataclass(frozen=True)
class Release:
    """A run of the downstream DAG, with the table and the range of versions that triggered it."""

    run_id: str
    run_type: str
    queued: datetime | None
    seconds: float
    table: str
    first_version: int
    last_version: int


class Pipeline:
    """Runs DAGs through Airflow's API, and prints the progress. `patience` multiplies the time that each may take."""

    def __init__(self, api: AirflowApi, home: Home, progress: Progress, patience: float = 1.0) -> None:
        self.api = api
        self.home = home
        self.progress = progress
        self._parse_seconds, self._run_seconds = PARSE_SECONDS * patience, RUN_SECONDS * patience

    def await_dags(self) -> None:
        """Wait until every DAG is parsed, and unpause all of them.

        Raises:
            DemoError: the import of a DAG file failed, or a DAG was not parsed in time.
        """
        deadline = time.monotonic() + self._parse_seconds
        while missing := set(DAGS) - self.api.dag_ids():
            if errors := self.api.import_errors():
                raise DemoError(
                    f"The import of a DAG file failed: {errors[0]}", hint="Fix that file.", log=self.home.airflow_log
                )
            if time.monotonic() > deadline:
                raise DemoError(
                    f"Airflow has not parsed {', '.join(sorted(missing))} after {self._parse_seconds:.0f} seconds",
                    hint="The DAG processor's lines in the log have the reason.",
                    log=self.home.airflow_log,
                )
            time.sleep(POLL_SECONDS)
        for dag_id in DAGS:
            self.api.unpause(dag_id)

    def run(self, dag_id: str, params: dict[str, object] | None = None, *, user: AirflowApi | None = None) -> Run:
        """Trigger the DAG, as the default or another user."""
        run = (user or self.api).trigger(dag_id, params)
        self.progress.line("note", f"{dag_id} started by hand")
        return run

    def follow(
        self,
        run: Run,
        *,
        answer: Answer | None = None,
        may_fail: Expected | None = None,
    ) -> list[Task]:
        """Watch the run to its end, print a line for each task, and return the tasks.

        Args:
            answer: called with the question of a task.
            may_fail: called with the log of a failed task; returns a sentence about an expected failure, else None.

        Raises:
            DemoError: a task failed unexpectedly, or the run takes too long.
        """
        reported: set[tuple[str, int]] = set()
        first_asked: dict[Question, float] = {}
        deadline = time.monotonic() + self._run_seconds
        while True:
            now = self.api.run(run.dag_id, run.run_id)
            tasks = self.api.tasks(run.dag_id, run.run_id)
            for task in sorted(tasks, key=lambda task: (task.ended is None, task.ended)):
                if task.finished and (task.task_id, task.map_index) not in reported and task.state != "removed":
                    reported.add((task.task_id, task.map_index))
                    self._tell(now, task, may_fail)
            if now.finished:
                return tasks
            if answer is not None:
                for question in self.api.questions(run.dag_id, run.run_id):
                    if time.monotonic() - first_asked.setdefault(question, time.monotonic()) < READING_SECONDS:
                        continue
                    del first_asked[question]
                    answer(question)
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{run.dag_id} has not ended after {self._run_seconds:.0f} seconds",
                    hint="This machine may be too small or too busy: 2 cores and 8 GiB are needed.",
                    log=self.home.airflow_log,
                )
            time.sleep(POLL_SECONDS)

    def _tell(self, run: Run, task: Task, may_fail: Expected | None) -> None:
        name = f"{run.dag_id} · {task.task_id.replace('_', ' ').replace('.', ' · ')}"
        if task.map_index >= 0:
            name += f" · {task.label or task.map_index}"
        if task.state == "success":
            self.progress.line("done", name, task.seconds)
        elif task.state == "skipped":
            self.progress.line("note", f"{name}: nothing to do")
        elif task.state == "failed":
            log = self.api.log(run.dag_id, run.run_id, task)
            shown = may_fail(log) if may_fail is not None else None
            if shown is None:
                self.progress.line("failed", name, task.seconds)
                raise DemoError(
                    f"The task {task.task_id} of {run.dag_id} failed: {last_error(log)}",
                    hint="Look at it with `make up`.",
                    log=self.home.airflow / "logs" / f"dag_id={run.dag_id}",
                )
            self.progress.line("refused", f"{name}: {shown}", task.seconds)
        else:
            self.progress.line("note", f"{name}: not run, because a task before it did not succeed")

    def await_releases(self, before: int) -> list[Release]:
        """Wait until Airflow has triggered and finished more than `before` runs of the report; return all runs."""
        deadline = time.monotonic() + self._run_seconds
        while time.monotonic() < deadline:
            runs = self.api.runs(REPORT)
            if len(runs) > before:
                self.progress.line("note", f"new versions have triggered {REPORT}")
                for run in runs[before:]:
                    self.follow(run)
                return self.releases()
            time.sleep(POLL_SECONDS)
        raise DemoError(
            f"No new version has triggered {REPORT} within {self._run_seconds:.0f} seconds",
            hint="The triggerer's lines in the log have the reason.",
            log=self.home.airflow_log,
        )

    def releases(self) -> list[Release]:
        """All runs of the report so far, with the range of versions that triggered each."""
        return [
            Release(
                run.run_id,
                run.run_type,
                run.queued,
                (run.ended - run.started).total_seconds() if run.ended and run.started else 0.0,
                str(event["extra"]["table"]),
                int(event["extra"]["from_version"]) + 1,
                int(event["extra"]["to_version"]),
            )
            for run in self.api.runs(REPORT)
            for event in self.api.released_by(REPORT, run.run_id)[:1]
        ]


def last_error(log: str) -> str:
    """The last line of a task's log that names an error or exception, else the log's last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and "::" not in line[:2]]
    named = [line for line in lines if re.search(r"\b\w+(Error|Exception)\b: ", line)]
    return (named or lines or ["no log"])[-1]
