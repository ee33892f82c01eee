"""A real Spark Connect server on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

TOKEN = "hunter2-of-connect"
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PROPERTIES = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",  # shows code that depends on the zone
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True)
class ConnectServer:
    """A server that accepts only clients with TOKEN."""

    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"sc://localhost:{self.port}/;token={TOKEN}"


@contextmanager
def connect_server(folder: Path) -> Iterator[ConnectServer]:
    """A server whose log is in the folder; it has two cores, and is killed at the end of the block."""
    server = ConnectServer(free_port(), folder / "connect-server.log")
    properties = {**_PROPERTIES, "spark.connect.grpc.binding.port": str(server.port)}
    properties["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin/spark-submit"), "--class", _CLASS, "--master", "local[2]", "--driver-memory", "1g"]
    command += [word for name, value in properties.items() for word in ("--conf", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = TOKEN
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"], env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 180
        while not _listens(server.port):
            assert process.poll() is None, server.log.read_text()
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.2)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
