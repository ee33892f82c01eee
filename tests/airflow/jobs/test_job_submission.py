"""Jobs through the Spark connection: the output in the task's XCom and log, and the leftovers of a killed task.

A script replaces spark-submit in tests that need only the form of its output.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lakehouse_airflow.errors import failure
from lakehouse_airflow.jobs.job_folder import JobFolder
from lakehouse_airflow.jobs.submission import JobSubmission
from lakehouse_airflow.operators.ingest import LakehouseIngestOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from tests.airflow.jobs.job_scripts import PRELUDE


@pytest.fixture(autouse=True)
def jobs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS", str(tmp_path / "jobs"))


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_connection: None) -> Any:
    """Replace spark-submit with a Python script."""

    def replace(code: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "spark-submit"
        script.write_text(f"#!{sys.executable}\n{PRELUDE}\n{code}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    return replace


def submission(**options: Any) -> JobSubmission:
    folder = JobFolder(os.environ["JOBS"], None, "airflow:upkeep:manual__1:t:-1")
    return JobSubmission("compact", ["--table", "t"], folder=folder, conn_id="spark_default", **options)


def test_a_missing_spark_connection_is_named_and_not_replaced_by_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    with pytest.raises(AirflowFailException, match=r"'nothing_here' is not defined.*local\[\*\]"):
        JobSubmission("compact", [], folder=JobFolder("jobs", None, None), conn_id="nothing_here")


def test_cluster_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1:7077", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    with pytest.raises(AirflowFailException, match=r"deploy-mode 'cluster'; expected client.* standalone cluster also"):
        submission()


@pytest.mark.slow  # starts a JVM
def test_spark_itself_refuses_python_in_cluster_mode_on_a_standalone_master(tmp_path: Path) -> None:
    # The refusal of the mode and docs/operators.md state this as a limit of Spark.
    (tmp_path / "job.py").write_text("print(1)\n")
    command = ["spark-submit", "--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster", "job.py"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Cluster deploy mode is currently not supported for python applications on standalone" in done.stderr


def with_extra(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client", **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def test_a_connection_names_no_other_program_than_spark_submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "spark-submit"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    names = ["spark-sql", "Spark-Submit", "spark-submit ", " spark-submit", "spark-submit\n", "bash", "", "."]
    for name in [*names, str(script), "./spark-submit", "../x/spark-submit", ["spark-submit"], {"spark-submit": 1}, 1]:
        with_extra(monkeypatch, **{"spark-binary": name})
        with pytest.raises(AirflowFailException) as refused:
            submission()
        assert f"'spark_default' has spark-binary {name!r}; expected one of spark-submit, spark2" in str(refused.value)
    assert not ran.exists()
    with_extra(monkeypatch, **{"spark-binary": None})
    assert submission()._connection["spark_binary"].endswith("spark-submit")


@pytest.mark.parametrize("name", ["spark-submit", "spark2-submit", "spark3-submit"])
def test_the_names_of_spark_submit_that_the_provider_allows_are_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    script = tmp_path / name
    script.write_text(f"#!{sys.executable}\n{PRELUDE}\nend({{'lakehouse': 'result', 'version': 1}})\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with_extra(monkeypatch, **{"spark-binary": name})
    assert submission().run() == {"job": "compact", "version": 1}


@pytest.mark.parametrize(("key", "value"), [("spark-home", "/opt/theirs"), ("keytab", "aHVudGVyMg==")])
def test_a_connection_brings_no_spark_and_no_keytab(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, value: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the provider would leave the keytab
    with_extra(monkeypatch, **{key: value})
    with pytest.raises(AirflowFailException, match=f"'spark_default' has {key} in its extra") as refused:
        submission()
    assert value not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("rest-port", "http", "a whole number"),
        ("rest-port", None, "a whole number"),
        ("rest-port", [6066], "a whole number"),
        ("queue", 7, "a text"),
        ("principal", {"name": "x"}, "a text"),
    ],
)
def test_an_extra_of_the_wrong_kind_is_named(
    monkeypatch: pytest.MonkeyPatch, key: str, value: Any, expected: str
) -> None:
    with_extra(monkeypatch, **{key: value})
    message = f"the Spark connection 'spark_default' has {key} {value!r}; expected {expected}"
    with pytest.raises(AirflowFailException, match=f"LAKEHOUSE_INVALID_CONNECTION. {re.escape(message)}"):
        submission()


def test_a_truncated_extra_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "spark", "host": "local[2]", "extra": '{"deploy-mode": "client"'}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    with pytest.raises(AirflowFailException, match="the extra of the connection 'spark_default' is not a JSON object"):
        submission()


def test_the_outcome_is_the_object_and_not_the_output(spark_submit: Any, tmp_path: Path) -> None:
    spark_submit(
        """
end({"lakehouse": "result", "version": 7})
print('{"lakehouse": "result", "job": "compact", "version": 8}', flush=True)
"""
    )
    assert submission().run() == {"job": "compact", "version": 7}
    assert list((tmp_path / "jobs").iterdir()) == []


def test_the_job_runs_this_python_on_the_local_address(spark_submit: Any) -> None:
    spark_submit(
        """
end({"lakehouse": "result", "argv": sys.argv[1:], "python": os.environ["PYSPARK_PYTHON"],
     "driver": os.environ["PYSPARK_DRIVER_PYTHON"]})
"""
    )
    result = submission(driver_memory="1g", conf={"spark.x": "y"}).run()
    assert result["python"] == result["driver"] == sys.executable
    assert result["argv"][-4:-2] == ["--table", "t"]
    assert result["argv"][-5].endswith("/spark_jobs/compact.py")
    line = " ".join(result["argv"])
    for part in ("--master local[2]", "--conf spark.driver.host=127.0.0.1", "--conf spark.x=y", "--driver-memory 1g"):
        assert part in line


@pytest.mark.usefixtures("spark_connection")
def test_spark_home_is_set_for_the_pyspark_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pyspark

    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert submission()._env_vars["SPARK_HOME"] == str(Path(pyspark.__file__).parent)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert "SPARK_HOME" not in submission()._env_vars


def test_spark_home_is_not_set_for_another_spark(spark_submit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    spark_submit('end({"lakehouse": "result", "home": os.environ.get("SPARK_HOME")})')
    assert submission().run()["home"] is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TableNotFoundError", AirflowFailException),
        ("SourceRefusedError", AirflowFailException),
        ("InvalidPredicateError", AirflowFailException),
        ("ConcurrentAppendError", AirflowException),
        ("StoreError", AirflowException),
        ("Py4JJavaError", AirflowException),
        ("MemoryError", AirflowException),
    ],
)
def test_the_jobs_error_is_the_tasks_error(spark_submit: Any, kind: str, expected: type[Exception]) -> None:
    line = {"lakehouse": "error", "job": "compact", "type": kind, "message": "the message, with “quotes” and 'more'"}
    spark_submit(f"end({line!r}); sys.exit(1)")
    with pytest.raises(expected) as error:
        submission().run()
    assert type(error.value) is expected
    assert str(error.value) == f"{kind}: {line['message']}"
    assert error.value.__suppress_context__ or error.value.__context__ is None
    assert type(failure(kind, "x")) is expected


def test_a_failed_job_leaves_its_partial_result_in_xcom(spark_submit: Any, registry_file: Path) -> None:
    line = {
        "lakehouse": "error",
        "job": "ingest",
        "type": "SourceRefusedError",
        "message": "orders.csv has no column o_custkey",
        "result": {"files": 3},
    }
    spark_submit(f"end({line!r}); sys.exit(1)")
    pushed = {}

    class TaskInstance:
        dag_id, run_id, task_id, map_index, try_number = "upkeep", "manual__1", "t", -1, 1

        def xcom_push(self, key: str, value: Any) -> None:
            pushed[key] = value

    with pytest.raises(AirflowFailException, match=r"^SourceRefusedError: orders.csv has no column o_custkey$"):
        LakehouseIngestOperator(task_id="ingest", table="orders", engine="spark").execute({"ti": TaskInstance()})
    assert pushed == {"return_value": {"files": 3}}


def test_the_end_of_the_output_is_shown_if_spark_exits_without_an_error_line(spark_submit: Any) -> None:
    spark_submit("print('java.lang.OutOfMemoryError: Java heap space', flush=True); sys.exit(137)")
    with pytest.raises(AirflowException, match=r"(?s)Error code is: 137.*OutOfMemoryError") as error:
        submission().run()
    assert not isinstance(error.value, AirflowFailException)


def test_a_job_without_an_outcome_fails(spark_submit: Any) -> None:
    spark_submit("print('done')")
    with pytest.raises(AirflowException, match="without an outcome"):
        submission().run()


def test_killing_the_task_kills_the_child_processes_of_the_job(spark_submit: Any, tmp_path: Path) -> None:
    # Like spark-submit, start a separate process for the driver's Python.
    spark_submit(
        f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
    )
    running = submission()
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            running.run()
        except AirflowException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 120
    while not (tmp_path / "pids").exists() or len((tmp_path / "pids").read_text().split()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    running.on_kill()
    thread.join(120)
    assert outcome
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=60)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("moment", ["arguments", "storage_options"])
def test_a_task_that_is_killed_before_its_job_begins_starts_no_job(
    spark_submit: Any, registry_file: Path, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_submit(f"open({str(tmp_path / 'started')!r}, 'w')")
    operator = LakehouseOptimizeOperator(task_id="t", table="orders", engine="spark")
    at_work = getattr(operator, moment)

    def terminated(*args: Any) -> Any:  # Airflow's handler of SIGTERM calls on_kill, and the task continues
        operator.on_kill()
        return at_work(*args)

    monkeypatch.setattr(operator, moment, terminated)
    with pytest.raises(AirflowException, match="was stopped or not started, because its task was killed"):
        operator.execute({})
    assert not (tmp_path / "started").exists()


def test_a_task_that_is_killed_while_its_job_begins_kills_it(
    spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_submit("time.sleep(600)")
    running = submission()
    start = subprocess.Popen

    def terminated(*args: Any, **options: Any) -> Any:
        process = start(*args, **options)
        running.on_kill()  # the submission does not know the process yet
        return process

    monkeypatch.setattr(subprocess, "Popen", terminated)
    began = time.monotonic()
    with pytest.raises(AirflowException):
        running.run()
    assert time.monotonic() - began < 300


def test_output_that_is_not_utf_8_does_not_fail_the_task(spark_submit: Any) -> None:
    spark_submit(
        r"""
os.write(1, b"a file \xe9\xff\n")
end({"lakehouse": "result", "version": 3})
"""
    )
    assert submission().run()["version"] == 3
