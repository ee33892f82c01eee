"""A durable job of a task, whose later try finds it."""

from pathlib import Path

from lakehouse_airflow.jobs.job_folder import JobFolder
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
