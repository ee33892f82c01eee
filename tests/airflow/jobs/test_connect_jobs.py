"""Jobs on a Spark Connect server: a process of the worker, its secrets, its kill, and its adoption by a later try.

A script replaces the job in tests that do not need a server.
"""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lakehouse_airflow.jobs import submission as submission_module
from lakehouse_airflow.jobs.submission import JobSubmission
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_lib import DeltaTable, write_deltalake
from spark_jobs import erase
from tests.airflow.jobs.connect_job import replace_job, submission
from tests.connect_server import TOKEN, connect_server, free_port

#: A task that runs the job, in a process that a test can kill.
TRY = """
import sys
from pathlib import Path
from tests.airflow.jobs.connect_job import replace_job, submission
replace_job(Path(sys.argv[1]))
submission(Path(sys.argv[1])).run()
"""


def connect_to(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    connection = {"conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": TOKEN, **fields}
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", json.dumps(connection))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the script."""
    connect_to(monkeypatch)
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setattr(submission_module, "spark_jobs", None)
    monkeypatch.setattr(submission_module, "_POLL_SECONDS", 0.02)
    replace_job(tmp_path)
    return tmp_path


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({}, {"driver_memory": "2g"}, "driver_memory is '2g', but 'connect' is a Spark Connect server"),
        ({"host": ""}, {}, "the Spark connection 'connect' has no host"),
        ({"host": "sc://localhost/;token=x"}, {}, "'connect' has the host .*; expected a host without a path"),
        ({"extra": "{"}, {}, "the extra of the connection 'connect' is not a JSON object"),
    ],
)
def test_a_connection_that_names_no_server_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fields: Any, options: Any, message: str
) -> None:
    connect_to(monkeypatch, **fields)
    with pytest.raises(AirflowFailException, match=message) as refused:
        submission(tmp_path, **options)
    assert TOKEN not in str(refused.value)


def test_the_server_is_in_memory_and_not_on_the_command_line(job: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (job / "go").touch()
    result = submission(job, conf={"spark.sql.ansi.enabled": "true"}, private_files={"--where-file": "x"}).run()
    assert result["server"] == {
        "url": f"sc://localhost:15002/;token={TOKEN}",
        "properties": {"spark.sql.ansi.enabled": "true"},
    }
    assert result["argv"][1:3] == ["--table", "t"]
    assert TOKEN not in " ".join(result["argv"])
    assert TOKEN not in caplog.text


def test_a_keytab_in_the_extra_is_not_written(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_to(monkeypatch, extra={"keytab": "aHVudGVyMg==", "spark-binary": "bash", "use_ssl": True})
    (job / "go").touch()
    url = submission(job).run()["server"]["url"]
    assert url == f"sc://localhost:15002/;token={TOKEN};use_ssl=True"


def test_a_killed_task_kills_its_job(job: Path) -> None:
    running = submission(job)
    process: list[int] = []

    def kill(*_: Any) -> None:
        type(running)._process_spark_submit_log(running, iter(()))  # opens the gate
        wait_for(lambda: (job / "started").exists() and (job / "started").read_text())
        process.append(int((job / "started").read_text()))
        running.on_kill()

    running._process_spark_submit_log = kill  # type: ignore[method-assign]
    with pytest.raises(AirflowException, match="Error code is: -9"):
        running.run()
    wait_for(lambda: not Path(f"/proc/{process[0]}").exists())


@pytest.mark.slow  # a process that imports Airflow
def test_the_job_of_a_killed_worker_is_found_by_the_next_try(job: Path) -> None:
    task = subprocess.Popen([sys.executable, "-c", TRY, str(job)])
    try:
        wait_for(lambda: (job / "started").exists() and (job / "started").read_text())
    finally:
        task.kill()
        task.wait()
        (job / "go").touch()
    started = (job / "started").read_text()
    # The job reads its private files after its task has died.
    assert submission(job).run()["server"]["url"] == f"sc://localhost:15002/;token={TOKEN}"
    assert (job / "started").read_text() == started


def test_an_erasure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    delete = SimpleNamespace(table=str(tmp_path / "t"), predicate="id = 1", request="r")
    monkeypatch.setattr(erase, "_deletes", lambda _: [delete])
    todo: Any = erase.prepare(SimpleNamespace(deletes_file="", storage_options={}))  # type: ignore[arg-type]
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(erase.InvalidArgumentError, match="the job erase does not run on Spark Connect"):
        todo(session)


class TaskInstance:
    dag_id, run_id, task_id, map_index, try_number = "upkeep", "manual__1", "optimize", -1, 1


def optimize(table: Path, **options: Any) -> dict[str, Any]:
    operator = LakehouseOptimizeOperator(
        task_id="optimize", table=str(table), engine="spark", spark_conn_id="connect", **options
    )
    return operator.execute({"ti": TaskInstance()})


@pytest.mark.slow  # a Spark Connect server
@pytest.mark.timeout(600)
def test_an_operator_runs_its_job_on_a_connect_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for first in range(3):
        write_deltalake(tmp_path / "t", pa.table({"id": [first]}), mode="append")
    processes: list[bytes] = []
    process_log = JobSubmission._process_spark_submit_log

    def watched(self: JobSubmission, lines: Any) -> None:
        process = Path(f"/proc/{self._submit_sp.pid}")
        variables = process.joinpath("environ").read_bytes().split(b"\0")
        # The connection of this test is in the environment of the task itself.
        others = [variable for variable in variables if not variable.startswith(b"AIRFLOW_CONN_CONNECT=")]
        processes.append(b"".join([process.joinpath("cmdline").read_bytes(), *others]))
        process_log(self, lines)

    monkeypatch.setattr(JobSubmission, "_process_spark_submit_log", watched)
    with connect_server(tmp_path) as server:
        connect_to(monkeypatch, port=server.port)
        result = optimize(tmp_path / "t", spark_conf={"spark.sql.shuffle.partitions": "3"})
        with pytest.raises(AirflowFailException, match=r"refuses the property spark\.executor\.memory"):
            optimize(tmp_path / "t", spark_conf={"spark.executor.memory": "1g"})
        connect_to(monkeypatch, port=server.port, password="wrong-token")
        with pytest.raises(AirflowException, match="refuses the session"):
            optimize(tmp_path / "t")
    assert result["version"] == 3
    assert len(DeltaTable(tmp_path / "t").file_uris()) == 1
    assert len(processes) == 3
    assert b"spark-connect-file" in processes[0]
    assert not [text for text in processes if TOKEN.encode() in text]
    assert TOKEN not in caplog.text + json.dumps(result)


@pytest.mark.slow  # waits for a server that does not answer
@pytest.mark.timeout(300)
def test_the_error_of_an_unreachable_server_has_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(2):
        write_deltalake(tmp_path / "t", pa.table({"id": [first]}), mode="append")
    port = free_port()
    connect_to(monkeypatch, port=port)
    with pytest.raises(
        AirflowException, match=f"localhost:{port} has not answered .*start-connect-server.sh"
    ) as failed:
        optimize(tmp_path / "t")
    assert TOKEN not in str(failed.value)
