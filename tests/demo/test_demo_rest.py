"""The client of Airflow's REST API over HTTP with a stub server; the demo itself uses it with Airflow."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from demo.errors import DemoError
from demo.pipeline import last_error
from demo.rest import AirflowApi, RefusedError

PASSWORD = "not to be seen"
LOG = [
    {"event": "starting"},
    {"event": "Task failed", "error_detail": [{"exc_type": "AirflowFailException", "exc_value": "SomeError: why"}]},
    {"event": "::endgroup::"},
]
ANSWERS = {
    ("POST", "/auth/token"): (201, {"access_token": "token"}),
    ("GET", "/api/v2/dags?limit=100"): (200, {"dags": [{"dag_id": "one"}]}),
    ("GET", "/api/v2/importErrors"): (403, {"detail": "Forbidden"}),
    ("GET", "/api/v2/monitor/health"): (200, {"metadatabase": {"status": "healthy"}, "scheduler": None}),
}


class Airflow(ThreadingHTTPServer):
    requests: list[tuple[str, str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Airflow

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        status, body = ANSWERS.get((self.command, self.path), (404, {"detail": "Not Found"}))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    do_GET = do_POST = do_PATCH = _answer

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def airflow() -> Iterator[Airflow]:
    with Airflow(("127.0.0.1", 0), Handler) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def api(airflow: Airflow) -> AirflowApi:
    return AirflowApi(f"http://127.0.0.1:{airflow.server_port}", "admin", PASSWORD)


def test_the_token_is_fetched_once_and_sent_with_every_call(airflow: Airflow, api: AirflowApi) -> None:
    assert api.dag_ids() == {"one"}
    assert api.dag_ids() == {"one"}
    assert [request[0] for request in airflow.requests] == ["POST", "GET", "GET"]
    assert {request[2] for request in airflow.requests[1:]} == {"Bearer token"}


def test_no_proxy_sees_the_password(api: AirflowApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert api.dag_ids() == {"one"}


def test_a_refusal_is_one_line_without_the_password(api: AirflowApi) -> None:
    with pytest.raises(RefusedError, match="Airflow answered 403 to GET /api/v2/importErrors") as refused:
        api.import_errors()
    assert "\n" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_a_missing_airflow_is_one_line(airflow: Airflow) -> None:
    nobody = AirflowApi("http://127.0.0.1:9", "admin", PASSWORD)
    assert nobody.healthy() is False
    with pytest.raises(DemoError, match=r"does not answer on http://127\.0\.0\.1:9"):
        nobody.dag_ids()


def test_a_component_that_is_missing_is_not_healthy(api: AirflowApi) -> None:
    assert api.healthy() is False


def test_a_missing_xcom_is_none(api: AirflowApi) -> None:
    assert api.xcom("dag", "run/1", "task") is None


def test_a_failed_tasks_error_is_found_in_its_log() -> None:
    from demo.rest import _log_line

    log = "\n".join(_log_line(line) for line in LOG)
    assert last_error(log) == "AirflowFailException: SomeError: why"
    assert last_error("just this") == "just this"
    assert last_error("") == "no log"
