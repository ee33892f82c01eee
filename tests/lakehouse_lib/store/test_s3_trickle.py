"""A server that sends its answers byte by byte: every request ends, and a commit's outcome is not guessed."""

import contextlib
import socket
import threading
import time

import pytest

from lakehouse_lib.errors import StoreError, StoreRefusedError
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import conditional_puts
from lakehouse_lib.store.s3.deadline import SLOWEST_BYTES_A_SECOND

pytestmark = pytest.mark.slow  # each answer takes seconds

BODY = b"x" * 40_000
HEAD = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: "e"\r\n'
_TIMES = {"timeout": "0.5", "retry_timeout": "0.6"}
_MOST_SECONDS = 15  # for both requests on a busy machine; without the limit, an answer takes at least 40 s


@contextlib.contextmanager
def dripping(answer: bytes, at_once: int, pause: float, step: int = 1):
    """The address of a server that sends ``at_once`` bytes of its answer, and then ``step`` bytes every ``pause``
    seconds."""
    over = threading.Event()

    def serve(connection):
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
            connection.sendall(answer[:at_once])
            for start in range(at_once, len(answer), step):
                if over.wait(pause):
                    return
                connection.sendall(answer[start : start + step])
            over.wait(20)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def at(url, location, s3_server, **more):
    return open_store(location, {**s3_server.options, "aws_endpoint_url": url, **_TIMES, **more})


WHOLE = HEAD % len(BODY) + b"\r\n" + BODY
REQUESTS = {
    "read": lambda store: store.read("x"),
    "head": lambda store: store.head("x"),
    "list": lambda store: list(store.list_from("_delta_log")),
    "open": lambda store: store.open_input("x"),
    "put": lambda store: store.put("x", b"1"),
    "delete": lambda store: store.delete_many(["x"]),
}


@pytest.mark.parametrize(
    ("request_of", "at_once"),
    [(request_of, 9) for request_of in REQUESTS.values()] + [(REQUESTS["read"], 0), (REQUESTS["read"], len(HEAD))],
    ids=[*REQUESTS, "from the first byte", "in the headers"],
)
def test_an_answer_that_is_too_slow_times_out(location, s3_server, at_once, request_of):
    with dripping(WHOLE, at_once, 0.2) as url:
        store = at(url, location, s3_server)
        started = time.monotonic()
        with pytest.raises(StoreError, match=rf"{url} does not answer \(ReadTimeoutError\).*retry_timeout"):
            request_of(store)
        assert time.monotonic() - started < _MOST_SECONDS


def test_a_body_that_is_too_slow_times_out(location, s3_server):
    with dripping(WHOLE, len(WHOLE) - 1000, 0.2) as url:
        store = at(url, location, s3_server)
        started = time.monotonic()
        with pytest.raises(StoreError, match="does not answer"):
            store.read("x")
        assert time.monotonic() - started < _MOST_SECONDS


def test_a_large_answer_at_the_required_rate_is_read(location, s3_server):
    """The answer takes longer than the limit, but arrives at the required rate."""
    pause = 0.25
    with dripping(WHOLE, 200, pause, step=int(2 * pause * SLOWEST_BYTES_A_SECOND)) as url:
        store = at(url, location, s3_server)
        started = time.monotonic()
        assert store.read("x") == BODY
        assert time.monotonic() - started > 0.5


def test_a_put_with_a_slow_answer_may_have_been_stored(location, s3_server, monkeypatch):
    with dripping(WHOLE, 9, 0.2) as url:
        store = at(url, location, s3_server)
        monkeypatch.setattr(conditional_puts, "_probed_buckets", {(url, "bucket")})
        with pytest.raises(StoreError) as caught:
            store.put_if_absent("_delta_log/0.json", b"0")
        assert not isinstance(caught.value, StoreRefusedError)


def test_connections_are_used_again(location, s3_server):
    """The connection pool treats a wrapped socket like any other."""
    store = open_store(location, s3_server.options)
    store.put("x", b"")
    (pool,) = _pools(store)
    connections, requests = pool.num_connections, pool.num_requests
    for number in range(5):
        store.put("x", bytes([number]) * 100_000)
        assert store.read("x") == bytes([number]) * 100_000
    assert pool.num_requests == requests + 10
    assert pool.num_connections == connections


def _pools(store):
    pools = store._client._connection().client._endpoint.http_session._manager.pools
    return [pools[key] for key in pools.keys()]  # noqa: SIM118 - it is not a mapping
