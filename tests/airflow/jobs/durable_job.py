"""A durable job of a task, whose later try finds it."""

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from lakehouse_airflow.jobs.job_folder import Handle, JobFolder
from lakehouse_airflow.jobs.machine import start_time, this_machine
from lakehouse_airflow.jobs.submission import JobSubmission
from lakehouse_lib.command_options import option

TASK = "airflow:upkeep:manual__1:t:-1"


def folder_of(tmp_path: Path) -> JobFolder:
    return JobFolder(str(tmp_path / "jobs"), None, TASK)


def submission(tmp_path: Path, *arguments: str, durable: bool = True, **files: str) -> JobSubmission:
    return JobSubmission(
        "compact",
        ["--table", "t", *arguments],
        folder=folder_of(tmp_path),
        durable=durable,
        private_files={option(name): text for name, text in files.items()},
        conn_id="spark_default",
    )


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def starts(tmp_path: Path) -> list[int]:
    file = tmp_path / "starts"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def orphan(tmp_path: Path, *arguments: str, **files: str) -> subprocess.Popen[bytes]:
    """A job that runs, with the handle of a try whose process has ended."""
    folder = folder_of(tmp_path)
    name = folder.new_name()
    words = [f"--job-folder={folder.location}", f"--job-name={name}"]
    process = subprocess.Popen(["spark-submit", *words], start_new_session=True)
    started = start_time(process.pid)
    assert started is not None
    command = submission(tmp_path, *arguments, **files)._digest
    folder.put_handle(Handle(name, command, this_machine(), process.pid, started))
    wait_for(lambda: starts(tmp_path))
    return process


def in_thread(running: JobSubmission) -> tuple[threading.Thread, list[Any]]:
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(running.run())
        except (AirflowException, AirflowTaskTimeout) as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome
