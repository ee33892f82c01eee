"""The cache of assumed roles: its content, its lifetime, and that only one of many threads requests keys."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.connections import session_keys
from lakehouse_airflow.connections.session_keys import SessionKeys, shared_keys

HOUR = 3600.0
SECRET = "hunter2/of+the+role"


class Service:
    """A service that returns new keys for each request, valid for ``life`` seconds; ``now`` is the clock."""

    def __init__(self, life: float = HOUR) -> None:
        self.life = life
        self.now = 1_800_000_000.0
        self.calls = 0

    def ask(self) -> SessionKeys:
        self.calls += 1
        keys = {"aws_access_key_id": f"ASIA{self.calls}", "aws_secret_access_key": SECRET}
        return SessionKeys.until(self.now + self.life, keys, "eu-central-1")

    def key(self, inputs: object = "a") -> str:
        return shared_keys(inputs, self.ask).keys["aws_access_key_id"]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    stub = Service()
    monkeypatch.setattr(session_keys, "_answers", OrderedDict())
    monkeypatch.setattr("lakehouse_airflow.connections.session_keys.time.time", lambda: stub.now)
    return stub


@pytest.mark.parametrize(
    ("life", "kept_for"),
    [(HOUR, HOUR - 300), (900.0, 600.0), (60.0, 40.0), (0.0, 0.0), (-60.0, 0.0)],
)
def test_keys_are_renewed_before_they_expire(service: Service, life: float, kept_for: float) -> None:
    service.life = life
    assert service.key() == "ASIA1"
    if kept_for:
        service.now += kept_for - 1
        assert service.key() == "ASIA1"
        service.now += 1
    assert service.key() == "ASIA2"
    assert len(session_keys._answers) == 1


def test_other_inputs_get_other_keys(service: Service) -> None:
    inputs: list[Any] = [
        [name, {"aws_secret_access_key": key}, {"RoleArn": "x", **role}, sts]
        for name in ("a", "b")
        for key in ("1", "2", None)
        for role in ({}, {"DurationSeconds": 900}, {"Tags": [{"Key": "k", "Value": "v"}]})
        for sts in (None, "https://sts")
    ]
    keys = [service.key(arguments) for arguments in inputs]
    assert len(set(keys)) == len(inputs)
    assert [service.key(json.loads(json.dumps(arguments))) for arguments in inputs] == keys


def test_a_failed_request_for_keys_is_not_cached(service: Service) -> None:
    def refuse() -> SessionKeys:
        raise AirflowFailException("refused")

    for _ in range(2):
        with pytest.raises(AirflowFailException, match="refused"):
            shared_keys("a", refuse)
    assert service.key() == "ASIA1"
    service.now += HOUR
    with pytest.raises(AirflowFailException, match="refused"):
        shared_keys("a", refuse)
    assert service.key() == "ASIA2"


class CountingLock:
    """A lock that calls ``then`` when it has been released ``times`` times."""

    def __init__(self, times: int, then: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._left = times
        self._then = then

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._left -= 1
        if self._left == 0:
            self._then()
        self._lock.release()


def test_one_thread_requests_the_keys_for_all_threads(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    all_wait = threading.Event()
    callers = []

    def slow() -> SessionKeys:
        callers.append(threading.get_ident())
        assert all_wait.wait(120)
        # A thread does not wait for the keys of another role either.
        assert service.key("other").startswith("ASIA")
        return service.ask()

    def refuse() -> SessionKeys:
        slow()
        raise AirflowFailException("refused")

    def of_eight(ask: Callable[[], SessionKeys]) -> list[Any]:
        callers.clear()
        all_wait.clear()
        monkeypatch.setattr(session_keys, "_lock", CountingLock(8, all_wait.set))
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(shared_keys, ask.__name__, ask) for _ in range(8)]
            return [answer.exception() or answer.result() for answer in answers]

    answers = of_eight(slow)
    assert len(callers) == 1
    assert all(answer is answers[0] for answer in answers)
    refused = of_eight(refuse)
    assert len(callers) == 1
    assert [str(error) for error in refused] == ["refused"] * 8


def test_the_cache_keeps_the_most_recently_used_keys(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keys, "_MOST_KEPT", 3)
    first = service.key("a")
    for other in ("b", "c", "d", "e"):
        service.key(other)
        assert service.key("a") == first
    assert len(session_keys._answers) == 3
    assert (service.calls, service.key("b"), service.calls) == (5, "ASIA6", 6)


def test_a_forked_child_requests_its_own_keys(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert service.key() == "ASIA1"
    monkeypatch.setattr("lakehouse_airflow.connections.session_keys.os.getpid", lambda: -1)
    assert service.key() == "ASIA2"


def test_no_text_shows_a_secret(service: Service) -> None:
    inputs = [{"aws_secret_access_key": SECRET}]
    assert SECRET not in repr(shared_keys(inputs, service.ask))
    assert SECRET not in repr(session_keys._answers)
    assert "eu-central-1" in repr(shared_keys(inputs, service.ask))
