"""``make test-worker-kills``: an executor or a worker of a Spark cluster is killed in the middle of a job.

Spark runs the lost tasks again on another worker. The table must look as if nothing had happened.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import pyspark
import pytest

from demo.airflow_process import free_port
from tests.airflow.killed_workers import FILES, Scene
from tests.s3_server import Answer, Forward, LostAnswer, Request, S3Server, serving

pytestmark = pytest.mark.usefixtures("airflow_db")

_PATIENCE = 300.0
_EXECUTOR, _WORKER = "CoarseGrainedExecutorBackend", "deploy.worker.Worker"
_SPARK_CONF = """
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.executor.cores 1
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


@dataclass(frozen=True)
class Cluster:
    """A Spark master and two workers with one core each, on this machine."""

    master: str
    workers: list[psutil.Process]

    def victims(self, port: int, victim: Literal["executor", "worker"]) -> list[psutil.Process]:
        """The executor (or worker) and its children, of which one sends a request from this port."""
        marker = {"executor": _EXECUTOR, "worker": _WORKER}[victim]
        for worker in self.workers:
            for sender in worker.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if any(connection.laddr.port == port for connection in sender.net_connections("tcp")):
                        root = next(parent for parent in sender.parents() if marker in " ".join(parent.cmdline()))
                        return [root, *root.children(recursive=True)]
        return []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    port = free_port(30_000 + os.getpid() % 10_000, tries=200)
    master = f"spark://127.0.0.1:{port}"
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_CONF_DIR": str(tmp_path),  # empty
    }
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> psutil.Process:
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            command = [str(spark_class), f"org.apache.spark.deploy.{name}", *arguments]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        started.append(process)
        return psutil.Process(process.pid)

    try:
        start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        rest = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g", master)
        workers = [start("worker.Worker", *rest) for _ in range(2)]
        deadline = time.monotonic() + _PATIENCE
        while (tmp_path / "0.log").read_text().count("Registering worker") < len(workers):
            assert time.monotonic() < deadline, (tmp_path / "0.log").read_text()
            time.sleep(0.1)
        yield Cluster(master, workers)
    finally:
        for process in started:
            for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
                child.kill()
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving("lake") as server:
        yield server


@pytest.mark.parametrize("victim", ["executor", "worker"])
@pytest.mark.parametrize("verb", ["GET", "PUT"])
def test_the_work_is_done_once_if_spark_loses_an_executor_or_a_worker(
    verb: str, victim: Literal["executor", "worker"], tmp_path: Path, s3: S3Server, cluster: Cluster
) -> None:
    """The process dies while one of its tasks reads or writes a data file."""
    scene = Scene(tmp_path, s3, master=cluster.master, spark_conf=_SPARK_CONF)
    killed: list[psutil.Process] = []

    def interfere(request: Request, forward: Forward, environ: dict[str, Any]) -> Answer:
        if killed or request.verb != verb or not request.key.endswith(".parquet"):
            return forward()
        killed.extend(cluster.victims(int(environ["REMOTE_PORT"]), victim))
        if not killed:  # the driver reads a footer
            return forward()
        for process in killed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        raise LostAnswer

    with s3.interfering(interfere):
        scene.run()
    assert killed
    assert "Lost executor" in scene.log()
    assert scene.names() == [f"kept {number}" for number in range(FILES)]
    assert scene.tries_of_deletes() == [1]
