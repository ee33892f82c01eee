"""A client of the parts of Airflow's REST API that the demo uses."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from demo.errors import DemoError

# A busy machine answers late.
ANSWER_SECONDS = 120.0
FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_PARKED = frozenset({"awaiting_input", "deferred"})
_COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


@dataclass(frozen=True)
class Run:
    dag_id: str
    run_id: str
    run_type: str
    """`manual`, `scheduled` or `asset_triggered`."""
    state: str
    queued: datetime | None
    started: datetime | None
    ended: datetime | None

    @property
    def finished(self) -> bool:
        return self.state in ("success", "failed")


@dataclass(frozen=True)
class Task:
    task_id: str
    map_index: int
    """-1 for a task that is not mapped."""
    label: str
    state: str | None
    try_number: int
    started: datetime | None
    ended: datetime | None

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def seconds(self) -> float | None:
        if self.started is None or self.ended is None:
            return None
        return (self.ended - self.started).total_seconds()


@dataclass(frozen=True)
class Question:
    """The question of a task to a person."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    subject: str
    body: str
    options: tuple[str, ...]


class AirflowApi:
    """A user's session with Airflow; the first call fetches the token.

    Every call raises DemoError if Airflow does not answer or returns an error.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        self._token: str | None = None
        # Without a proxy: the server is on this machine, and the password must not leave it.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def healthy(self) -> bool:
        """Whether the API server, scheduler, DAG processor and triggerer are all up. Raises nothing."""
        try:
            health = self._send("GET", "/api/v2/monitor/health", token=None)
        except DemoError:
            return False
        return all((health.get(name) or {}).get("status") == "healthy" for name in _COMPONENTS)

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self._get("/api/v2/dags", limit=100)["dags"]}

    def import_errors(self) -> list[str]:
        """`file: last line of the stack trace` of every DAG file whose import failed."""
        errors = self._get("/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors]

    def unpause(self, dag_id: str) -> None:
        self._send("PATCH", f"/api/v2/dags/{_quote(dag_id)}", {"is_paused": False}, token=self._bearer())

    def trigger(self, dag_id: str, conf: Mapping[str, object] | None = None) -> Run:
        body = {"logical_date": None, "conf": dict(conf or {})}
        return _run(self._send("POST", f"/api/v2/dags/{_quote(dag_id)}/dagRuns", body, token=self._bearer()))

    def run(self, dag_id: str, run_id: str) -> Run:
        return _run(self._get(f"/api/v2/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}"))

    def runs(self, dag_id: str) -> list[Run]:
        """All runs of the DAG, oldest first."""
        runs = self._get(f"/api/v2/dags/{_quote(dag_id)}/dagRuns", limit=100, order_by="run_after")["dag_runs"]
        return [_run(run) for run in runs]

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        path = f"/api/v2/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}/taskInstances"
        return [_task(task) for task in self._get(path, limit=100)["task_instances"]]

    def xcom(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, key: str = "return_value") -> Any:
        """The task's XCom with the key `key`; None without one."""
        path = (
            f"/api/v2/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}/taskInstances/{_quote(task_id)}"
            f"/xcomEntries/{_quote(key)}"
        )
        try:
            return self._get(path, map_index=map_index, deserialize="true")["value"]
        except _NotFoundError:
            return None

    def log(self, dag_id: str, run_id: str, task: Task) -> str:
        """The log lines of the task's last try, as text."""
        path = (
            f"/api/v2/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}/taskInstances/{_quote(task.task_id)}"
            f"/logs/{max(task.try_number, 1)}"
        )
        content = self._get(path, map_index=task.map_index, full_content="true")["content"]
        return "\n".join(_log_line(line) for line in content)

    def released_by(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The asset events that triggered the run: `name`, `uri`, `timestamp`, `extra`."""
        path = f"/api/v2/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}/upstreamAssetEvents"
        return list(self._get(path)["asset_events"])

    def questions(self, dag_id: str, run_id: str) -> list[Question]:
        """The open questions of this run.

        A question appears shortly before its task waits; an answer in that moment makes the task fail.
        """
        path = f"/api/v2/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}/hitlDetails"
        details = self._get(path, response_received="false")["hitl_details"]
        return [
            Question(
                dag_id,
                run_id,
                detail["task_instance"]["task_id"],
                detail["task_instance"]["map_index"],
                detail["subject"],
                detail.get("body") or "",
                tuple(detail["options"]),
            )
            for detail in details
            if not detail["response_received"] and detail["task_instance"]["state"] in _PARKED
        ]

    def answer(self, question: Question, option: str) -> str:
        """Answer as this user; returns the user's name in Airflow's response.

        Raises:
            RefusedError: this user may not answer.
        """
        path = (
            f"/api/v2/dags/{_quote(question.dag_id)}/dagRuns/{_quote(question.run_id)}"
            f"/taskInstances/{_quote(question.task_id)}/{question.map_index}/hitlDetails"
        )
        answered = self._send("PATCH", path, {"chosen_options": [option], "params_input": {}}, token=self._bearer())
        return str(answered["responded_by"]["name"])

    def _bearer(self) -> str:
        if self._token is None:
            self._token = str(self._send("POST", "/auth/token", self._login, token=None)["access_token"])
        return self._token

    def _get(self, path: str, **query: object) -> Any:
        tail = f"?{urllib.parse.urlencode(query)}" if query else ""
        return self._send("GET", path + tail, token=self._bearer())

    def _send(self, method: str, path: str, body: object = None, *, token: str | None) -> Any:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")[:300]
            kind = {403: RefusedError, 404: _NotFoundError}.get(error.code, DemoError)
            raise kind(f"Airflow answered {error.code} to {method} {path}: {detail}") from None
        except (OSError, ValueError) as error:
            raise DemoError(f"Airflow does not answer on {self.url}: {error}") from None


class RefusedError(DemoError):
    """Airflow answered 403: this user does not have the permission for the request."""


class _NotFoundError(DemoError): ...


def _quote(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def _run(run: Mapping[str, Any]) -> Run:
    return Run(
        run["dag_id"],
        run["dag_run_id"],
        run["run_type"],
        run["state"],
        _time(run["queued_at"]),
        _time(run["start_date"]),
        _time(run["end_date"]),
    )


def _task(task: Mapping[str, Any]) -> Task:
    return Task(
        task["task_id"],
        task["map_index"],
        task.get("rendered_map_index") or "",
        task["state"],
        task["try_number"],
        _time(task["start_date"]),
        _time(task["end_date"]),
    )


def _log_line(line: object) -> str:
    if not isinstance(line, dict):
        return str(line)
    raised = [f"{error.get('exc_type')}: {error.get('exc_value')}" for error in line.get("error_detail") or ()]
    return "\n".join([str(line.get("event", "")), *raised])
