"""An S3 server in this process (moto's). Tests count its requests, change them or lose their answers.

moto's put-if-absent is not atomic among threads, so requests are served one at a time.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


@dataclass(frozen=True)
class Request:
    """``verb``: GET, PUT, HEAD, LIST, DELETE (also of many objects), or the HTTP method of any other request."""

    verb: str
    key: str
    headers: dict[str, str]


@dataclass
class Answer:
    status: str
    headers: list[tuple[str, str]]
    body: bytes

    @classmethod
    def error(cls, status: int, code: str, message: str = "told by the test", *, more: str = "") -> Answer:
        body = f"<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>".encode()
        return cls(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], body)


class LostAnswer(Exception):
    """The connection ends without an answer."""


Forward = Callable[[], Answer]
#: A function that gets each request in place of the server, and may pass it on.
Interfere = Callable[[Request, Forward, dict[str, Any]], Answer]


class S3Server:
    """An S3 server on a free port.

    Args:
        tls: with these settings the server speaks TLS, as localhost.

    Attributes:
        url: its address.
        requests: all requests since ``clear``.
        interfere: gets each request in place of the server; None: the server answers.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.interfere: Interfere | None = None
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._serve, True, request_handler=_Silent, ssl_context=tls)
        self._server.daemon_threads = True
        self.url = f"{'http://127.0.0.1' if tls is None else 'https://localhost'}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="s3-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "hunter2-secret",
            "aws_endpoint_url": self.url,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "retry_timeout": "5",
        }

    def counted(self) -> dict[str, int]:
        """The number of requests by verb since the last call."""
        verbs = Counter(request.verb for request in self.requests)
        self.requests.clear()
        return dict(sorted(verbs.items()))

    @contextmanager
    def interfering(self, interfere: Interfere) -> Iterator[None]:
        self.interfere = interfere
        try:
            yield
        finally:
            self.interfere = None

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        with self._lock:
            request = _request(environ)
            self.requests.append(request)
            try:
                answer = (
                    self.interfere(request, lambda: self._ask(environ), environ)
                    if self.interfere is not None
                    else self._ask(environ)
                )
            except LostAnswer:
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                raise ConnectionAbortedError from None
        start_response(answer.status, answer.headers)
        return [answer.body]

    def _ask(self, environ: dict[str, Any]) -> Answer:
        response: list[Any] = []
        body = b"".join(self._app(environ, lambda status, headers, exc_info=None: response.extend((status, headers))))
        return Answer(response[0], response[1], body)


@contextmanager
def serving(*buckets: str, tls: ssl.SSLContext | None = None) -> Iterator[S3Server]:
    """A running server with these buckets."""
    server = S3Server(tls)
    try:
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", **keys)
        for bucket in buckets:
            client.create_bucket(Bucket=bucket)
        client.close()
        yield server
    finally:
        server.close()


class _Silent(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


def _request(environ: dict[str, Any]) -> Request:
    method, query = environ["REQUEST_METHOD"], parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    verb = method
    if method == "GET" and "list-type" in query:
        verb = "LIST"
    elif method == "POST" and "delete" in query:
        verb = "DELETE"
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    key = unquote(environ["PATH_INFO"].lstrip("/").partition("/")[2])
    return Request(verb, query["prefix"][0] if verb == "LIST" and "prefix" in query else key, headers)
