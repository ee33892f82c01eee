"""A time limit for a whole answer. botocore's read timeout limits only the time between two of its bytes.

boto3 has no such setting. So the sockets of a client's connections are wrapped, and the reader of an answer counts the
time from its first read on, for ``100 Continue``, headers and body. No thread is needed.
"""

from __future__ import annotations

import io
import socket
import time
from typing import Any

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSHTTPSConnection, AWSHTTPSConnectionPool

#: The time limit of an answer grows by one second for each so many bytes received.
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
    """A socket with a time limit for answers; everything else is the socket's own."""

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
