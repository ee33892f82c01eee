"""A real S3 server in a separate process, and a proxy that loses answers or removes conditions of requests."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PROGRAM = Path(__file__).parents[2] / ".peers" / "bin" / "versitygw"
KEY, SECRET = "root-of-tests", "secret-of-tests"
REGION = "us-east-1"


class Versity:
    """versitygw over a folder; ``stop`` and ``start`` keep the folder and the port."""

    def __init__(self, folder: Path) -> None:
        self._data, self._log = folder / "data", folder / "log"
        for directory in (self._data, self._log.parent):
            directory.mkdir(exist_ok=True)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port: int = taken.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return options_of(self.url)

    @property
    def objects(self) -> Path:
        """The folder in which each bucket is a folder and each object a file."""
        return self._data

    def start(self) -> None:
        secrets = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._data.parent), **secrets}
        command = [str(PROGRAM), "--port", f"127.0.0.1:{self.port}", "--region", REGION, "--quiet", "posix"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*command, str(self._data)], env=environment, stdout=log, stderr=log)
        for _ in range(300):
            if self._process.poll() is not None:
                raise RuntimeError(f"versitygw ended: {self._log.read_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"versitygw does not listen: {self._log.read_text()}")

    def stop(self, *, kill: bool = False) -> None:
        assert self._process is not None
        self._process.kill() if kill else self._process.terminate()
        self._process.wait(30)

    def make_bucket(self, name: str) -> None:
        client = boto3.client(
            "s3", endpoint_url=self.url, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )
        client.create_bucket(Bucket=name)
        client.close()


@contextmanager
def running(folder: Path) -> Iterator[Versity]:
    """A running server over this new folder, with a bucket named "bucket"."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Versity(folder)
    server.start()
    try:
        server.make_bucket("bucket")
        yield server
    finally:
        server.stop()


def options_of(url: str) -> dict[str, str]:
    return {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_endpoint_url": url,
        "aws_allow_http": "true",
        "aws_region": REGION,
    }


class Proxy:
    """A proxy of a server, with its own port.

    Args:
        port: the server's port.
        lose: for a method and a path, called after the server has answered: whether the answer is lost.
        strip: headers that are removed; such a request is signed again.
    """

    def __init__(
        self, port: int, *, lose: Callable[[str, str], bool] | None = None, strip: tuple[str, ...] = ()
    ) -> None:
        self._verbs: list[str] = []
        of_this = {"port": port, "lose": staticmethod(lose or _never), "strip": strip, "record": self._verbs.append}
        handler = type("_Handler", (_Handler,), of_this)
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def counted(self) -> dict[str, int]:
        """The number of requests by verb since the last call."""
        verbs = [self._verbs.pop() for _ in range(len(self._verbs))]
        return dict(sorted(Counter(verbs).items()))

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the default of 5 waiting connections, the connections of a client that opens many at once are reset.
    request_queue_size = 128


def _never(_method: str, _path: str) -> bool:
    return False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    port = 0
    strip: tuple[str, ...] = ()
    lose: Callable[[str, str], bool] = staticmethod(_never)
    record: Callable[[str], None]

    def _pass_on(self) -> None:
        self.record(self._verb())
        body = self._body()
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        if any(name.lower() in self.strip for name in headers):
            headers = self._with_new_signature(headers, body)
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                server.putheader(name, value)
            server.endheaders()
            server.send(body)
            answer = server.getresponse()
            data = answer.read()
        finally:
            server.close()
        if self.lose(self.command, self.path):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length") or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _verb(self) -> str:
        """COPY, LIST, DELETE (also of many objects), the steps of a multipart upload, or the HTTP method."""
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if self.command == "PUT" and "x-amz-copy-source" in self.headers:
            return "COPY"
        if "uploadId" in query or "uploads" in query:
            return f"{self.command} of an upload in parts"
        if self.command == "GET" and "list-type" in query:
            return "LIST"
        return "DELETE" if self.command == "POST" and "delete" in query else self.command

    def _body(self) -> bytes:
        """The body as it arrives: chunked uploads of pyarrow stay chunked."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while True:
            pieces.append(self.rfile.readline())
            size = int(pieces[-1].split(b";")[0], 16)
            pieces.append(self.rfile.read(size) + self.rfile.readline() if size else self.rfile.readline())
            if not size:
                return b"".join(pieces)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on

    def _with_new_signature(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        signed = ("authorization", "x-amz-date", "x-amz-content-sha256", "amz-sdk-invocation-id", "amz-sdk-request")
        rest = {name: value for name, value in headers.items() if name.lower() not in (*self.strip, *signed)}
        request = AWSRequest(self.command, f"http://{self.headers['Host']}{self.path}", rest, body)
        S3SigV4Auth(Credentials(KEY, SECRET), "s3", REGION).add_auth(request)
        return dict(request.headers.items())

    def log_message(self, *_: object) -> None:
        pass


def is_installed() -> bool:
    return shutil.which(str(PROGRAM)) is not None
