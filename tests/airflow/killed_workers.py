"""An Airflow worker that runs one real job on a table in S3 and is killed (SIGKILL) at a chosen or a random moment.

The worker is Airflow's own supervisor with its task process. Only the API server is a stub.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import psutil
import pyarrow as pa
from deltalake import DeltaTable

from lakehouse_lib import write_deltalake
from lakehouse_lib.store import open_store
from spark_jobs.process.job_objects import JOBS_FOLDER
from tests.s3_server import Answer, Forward, LostAnswer, Request, S3Server

#: These texts are in the storage options, and in the predicate as a person's key.
SECRET, PERSON = "hunter2/the+secret=of+a+killed+worker", "person-0123456789-of-a-killed-worker"
FILES = 3
Victim: TypeAlias = Literal["task", "supervisor", "both", "JVM", "driver"]
_SECONDS_TO_COME, _SECONDS_TO_DIE = 600, 60  # on a machine that is busy with other tests

_DAG = """
import os
from airflow.sdk import DAG
from lakehouse_airflow.operators.change_rows import LakehouseDeleteRowsOperator

with DAG("killed"):
    LakehouseDeleteRowsOperator(
        task_id="delete",
        table=os.environ["TABLE"],
        predicate=os.environ["PREDICATE"],
        engine="spark",
        durable=os.environ["DURABLE"] == "1",
    )
"""

_WORKER = """
import sys, uuid
import httpx
from airflow.sdk.api.client import Client
from airflow.sdk.api.datamodels._generated import BundleInfo, TaskInstance
from airflow.sdk.execution_time.supervisor import supervise_task

NOW = "2026-01-01T00:00:00Z"
RUN = {
    "dag_id": "killed", "run_id": "r", "run_type": "manual", "state": "running", "partition_key": None,
    "consumed_asset_events": [], "end_date": None, "start_date": NOW, "run_after": NOW, "logical_date": NOW,
    "data_interval_start": NOW, "data_interval_end": NOW,
}

def answer(request):
    begins = request.url.path.endswith("/run")
    return httpx.Response(200, json={"dag_run": RUN, "max_tries": 0, "should_retry": False} if begins else {"ok": True})

ti = TaskInstance(
    id=uuid.uuid4(), task_id="delete", dag_id="killed", run_id="r", try_number=int(sys.argv[1]),
    dag_version_id=uuid.uuid4(),
)
client = Client(base_url=None, token="", dry_run=True, transport=httpx.MockTransport(answer))
bundle = BundleInfo(name="dags-folder")
sys.exit(supervise_task(
    ti=ti, bundle_info=bundle, dag_rel_path="killed.py", token="", client=client, subprocess_logs_to_stdout=True
))
"""

_SPARK_CONF = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={temporary}
spark.shuffle.compress        false
spark.shuffle.spill.compress  false
"""


@dataclass(frozen=True)
class Moment:
    """The process to kill and the moment: a process has ``command`` in its command line, or the store gets such a
    request.

    The store executes and answers the request only if ``answered``.
    """

    name: str
    victim: Victim
    command: str = ""
    request: Callable[[Request], bool] | None = None
    answered: bool = False


def _is_data(request: Request) -> bool:
    return request.key.endswith(".parquet")


def _is_list_of_log(request: Request) -> bool:
    return request.verb == "LIST" and JOBS_FOLDER not in request.key


def _is_commit(request: Request) -> bool:
    return request.verb == "PUT" and request.key.endswith(f"_delta_log/{FILES:020}.json")


MOMENTS = (
    Moment("the task begins", "supervisor", command="-c"),
    Moment("spark-submit is about to start", "task", command="process/parent.py"),
    Moment("spark-submit looks for its classes", "both", command="org.apache.spark.launcher.Main"),
    Moment("the JVM starts", "task", command="org.apache.spark.deploy.SparkSubmit"),
    Moment("the driver starts", "supervisor", command="spark_jobs/delete_rows.py"),
    Moment("the driver opens the table", "task", request=lambda request: _is_list_of_log(request)),
    Moment("a Python worker reads", "supervisor", request=lambda request: request.verb == "GET" and _is_data(request)),
    Moment("a Python worker writes", "both", request=lambda request: request.verb == "PUT" and _is_data(request)),
    Moment("the commit is on its way", "task", request=_is_commit),
    Moment("the commit is done", "supervisor", request=_is_commit, answered=True),
)


class Scene:
    """A table of people in S3, and the folders in which its jobs may leave files.

    Args:
        durable: whether the job outlives its worker.
        master: the address of Spark's master.
        spark_conf: further lines of spark-defaults.conf.
    """

    def __init__(
        self, folder: Path, s3: S3Server, *, durable: bool = False, master: str = "local[2]", spark_conf: str = ""
    ) -> None:
        self.durable = durable
        self.folder, self._copy = folder / "left", folder / "copy"
        self.s3 = s3
        self.uri = f"s3://lake/{folder.name}"
        self.options = s3.options | {"aws_secret_access_key": SECRET, "retry_timeout": "5s"}
        temporary, conf, dags = (self.folder / name for name in ("tmp", "conf", "dags"))
        for directory in (temporary, conf, dags):
            directory.mkdir(parents=True)
        (conf / "spark-defaults.conf").write_text(_SPARK_CONF.format(temporary=temporary) + spark_conf)
        (dags / "killed.py").write_text(_DAG)
        aws = {"endpoint_url": s3.url, "aws_allow_http": True, "region_name": "us-east-1", "retry_timeout": "5"}
        connection = {"conn_type": "aws", "login": "testing", "password": SECRET, "extra": aws}
        spark = {"conn_type": "spark", "host": master, "extra": {"deploy-mode": "client"}}
        self._environment = os.environ | {
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW_CONN_LAKEHOUSE_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
            "DURABLE": str(int(durable)),
            "PREDICATE": f"name = '{PERSON}'",
            "SCENE": str(self.folder),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_DIRS": str(temporary),
            "TABLE": self.uri,
            "TMPDIR": str(temporary),
        }
        self.tries = 0
        for number in range(FILES):
            rows = pa.table({"name": [PERSON, f"kept {number}"]})
            write_deltalake(self.uri, rows, mode="append", storage_options=self.options)

    def run(self) -> None:
        """Run one worker without killing it."""
        with self._worker() as worker:
            assert worker.wait(_SECONDS_TO_COME) == 0, self.log()[-3000:]

    def kill_after(self, seconds: float, victim: Victim) -> bool:
        """Start a worker, and kill a process of it after some time. False: it has ended before.

        If the victim does not exist yet, it is killed as soon as it does. What is left of the job goes on.
        """
        with self._worker(ends_job=False) as worker:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(seconds)
            while worker.poll() is None:
                victims = self._find(worker, victim)
                for process in victims:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                if victims:
                    worker.wait(_SECONDS_TO_COME)
                    return True
                time.sleep(0.005)
            assert worker.returncode == 0, self.log()[-3000:]
            return False

    def kill_at(self, moment: Moment) -> None:
        """Start a worker, kill it at that moment, and wait until none of its processes is left.

        A durable job goes on, so only the worker is gone.

        Raises:
            AssertionError: the moment did not come, or a process is still alive.
        """
        with self._worker(ends_job=not self.durable) as worker:
            killed = threading.Event()
            left: set[psutil.Process] = set()

            def kill() -> None:
                victims = self._victims(worker, moment.victim)
                left.update(victims if self.durable else self._processes(worker))
                for process in victims:
                    process.kill()
                killed.set()

            def interfere(request: Request, forward: Forward, _: object) -> Answer:
                if killed.is_set() or moment.request is None or not moment.request(request):
                    return forward()
                if moment.answered:
                    forward()
                kill()
                # The kernel takes a while on a busy machine. A driver that is still alive would send the request again.
                deadline = time.monotonic() + _SECONDS_TO_DIE
                while not self.durable and any(map(_lives, left)) and time.monotonic() < deadline:
                    time.sleep(0.02)
                raise LostAnswer

            with self.s3.interfering(interfere):
                deadline = time.monotonic() + _SECONDS_TO_COME
                while not killed.is_set():
                    assert time.monotonic() < deadline, f"{moment.name}: never; {self.log()[-3000:]}"
                    # Between a kill and its event, the worker has ended already.
                    is_running = worker.poll() is None or killed.wait(_SECONDS_TO_DIE)
                    assert is_running, f"{moment.name}: ended before; {self.log()[-3000:]}"
                    if moment.command and self._has_come(worker, moment.command):
                        kill()
                    time.sleep(0.005)
                deadline = time.monotonic() + _SECONDS_TO_DIE
                while alive := self._alive(left, worker):
                    assert time.monotonic() < deadline, f"{moment.name}: {alive} live on"
                    time.sleep(0.02)

    def files_with_secrets(self) -> list[str]:
        """The files that contain the secret or the person's key."""
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        assert files
        markers = (SECRET.encode(), json.dumps(SECRET)[1:-1].replace("/", "\\/").encode(), PERSON.encode())
        return [str(file) for file in files if any(marker in file.read_bytes() for marker in markers)]

    def names(self) -> list[str]:
        """The names in the table, as delta-rs reads it."""
        return sorted(self._table().to_pyarrow_table()["name"].to_pylist())

    def deletes(self) -> int:
        """The number of commits that have deleted rows."""
        return len(self.tries_of_deletes())

    def tries_of_deletes(self) -> list[int]:
        """The try of the task that has submitted the job of each commit that has deleted rows."""
        history = self._table().history()
        return [commit["airflow"]["try_number"] for commit in history if commit["operation"] == "DELETE"]

    def objects_of_jobs(self) -> list[str]:
        """The objects of jobs in the folder of the table."""
        return [meta.path for meta in open_store(self.uri, self.options).walk(JOBS_FOLDER)]

    def _table(self) -> DeltaTable:
        """A local copy of the table: delta-rs holds Python's lock while it waits for a server, and the server is in
        this process."""
        store = open_store(self.uri, self.options)
        for meta in store.walk():
            file = self._copy / meta.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(store.read(meta.path))
        return DeltaTable(self._copy)

    def end_jobs(self) -> None:
        """Kill what is left of all workers and their jobs."""
        for process in self._with_environment():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    @contextmanager
    def _worker(self, *, ends_job: bool = True) -> Iterator[subprocess.Popen[bytes]]:
        self.tries += 1
        with (self.folder / "log").open("wb") as log:
            command = [sys.executable, "-c", _WORKER, str(self.tries)]
            worker = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield worker
        finally:
            if ends_job:
                self.end_jobs()
            worker.kill()
            worker.wait()

    def _victims(self, worker: subprocess.Popen[bytes], victim: Victim) -> list[psutil.Process]:
        processes = self._find(worker, victim)
        assert processes, victim
        return processes

    def _find(self, worker: subprocess.Popen[bytes], victim: Victim) -> list[psutil.Process]:
        """The processes of a victim; empty if it does not exist yet."""
        with suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(worker.pid)
            tasks = supervisor.children()
            if victim in ("JVM", "driver"):
                command = {"JVM": "org.apache.spark.deploy.SparkSubmit", "driver": "spark_jobs/delete_rows.py"}[victim]
                children = [process for process in self._with_environment() if _has(process, command)]
                name = {"JVM": "java", "driver": "python"}[victim]
                return [each for each in children if name in each.name() and not _has(each, "process/parent.py")]
            return {"task": tasks, "supervisor": [supervisor], "both": [supervisor, *tasks]}[victim] if tasks else []
        return []

    def _has_come(self, worker: subprocess.Popen[bytes], command: str) -> bool:
        return any(_has(process, command) for process in psutil.Process(worker.pid).children(recursive=True))

    def _alive(self, processes: set[psutil.Process], worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
        worker.poll()
        return [process for process in processes | self._processes(worker) if _lives(process)]

    def _processes(self, worker: subprocess.Popen[bytes]) -> set[psutil.Process]:
        """The worker, the processes that it started, and all others with its environment."""
        processes = self._with_environment()
        with suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(worker.pid)
            processes |= {supervisor, *supervisor.children(recursive=True)}
        return processes

    def _with_environment(self) -> set[psutil.Process]:
        processes = set()
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get("SCENE") == str(self.folder):
                    processes.add(process)
        return processes

    def log(self) -> str:
        """The log of the last worker."""
        return (self.folder / "log").read_text(errors="replace")


def _has(process: psutil.Process, command: str) -> bool:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return any(command in word for word in process.cmdline())
    return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
