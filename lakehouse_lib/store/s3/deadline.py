"""A time limit for a whole answer (HTTP response) of S3.

botocore's read timeout limits only the time between two bytes of an answer, and boto3 has no setting for the whole
answer. So this module wraps the sockets of a client's connections. The time of an answer starts when the HTTP client
opens the socket for reading, and covers its headers and its body. ``100 Continue`` is an answer with a limit of its
own. The remaining time is set as the timeout of each read, so no thread has to watch it.
"""

from __future__ import annotations

import io
import socket
import time
from typing import Any

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSHTTPSConnection, AWSHTTPSConnectionPool

#: The time limit of an answer grows by one second for every SLOWEST_BYTES_A_SECOND bytes received.
SLOWEST_BYTES_A_SECOND = 16 * 2**10


def limit_answers(client: Any) -> None:
    """Make a boto3 client give up an answer that takes longer than its ``read_timeout`` and is slower than
    SLOWEST_BYTES_A_SECOND. It then raises ``ReadTimeoutError``, as for a server that sends nothing.
    """
    pools = {"http": _HTTPPool, "https": _HTTPSPool}
    client._endpoint.http_session._pool_classes_by_scheme.update(pools)  # boto3 has no public API for it


class _Answer(io.RawIOBase):
    """The bytes of one answer."""

    def __init__(self, source: io.RawIOBase, connection: socket.socket) -> None:
        self._source = source
        self._connection = connection
        self._seconds = connection.gettimeout()
        self._ends = None if self._seconds is None else time.monotonic() + self._seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._ends is None or self._seconds is None:
            return self._source.readinto(buffer)
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._connection.settimeout(min(left, self._seconds))
        try:
            count = self._source.readinto(buffer)
        finally:
            self._connection.settimeout(self._seconds)
        self._ends += (count or 0) / SLOWEST_BYTES_A_SECOND
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _Socket:
    """A socket with a time limit for answers. All other attributes are those of the wrapped socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def makefile(self, mode: Any, buffering: int | None = None) -> io.RawIOBase | io.BufferedReader:
        answer = _Answer(self._connection.makefile(mode, 0), self._connection)
        return answer if buffering == 0 else io.BufferedReader(answer)


class _HTTPConnection(AWSHTTPConnection):  # type: ignore[misc]
    sock: Any

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _HTTPSConnection(AWSHTTPSConnection):  # type: ignore[misc]
    sock: Any

    def connect(self) -> None:
        super().connect()
        self.sock = _Socket(self.sock)


class _HTTPPool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _HTTPConnection


class _HTTPSPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _HTTPSConnection
