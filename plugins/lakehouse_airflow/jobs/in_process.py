"""Run a small job in the task's own process, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from lakehouse_airflow.errors import InvalidParameterError
from lakehouse_airflow.jobs.supervisor import dying_with_supervisor
from spark_jobs.process.private_files import in_this_process, private_path


def run_in_process(
    job: str, arguments: Sequence[str], private_files: Mapping[str, str], max_bytes: int | None
) -> dict[str, Any] | None:
    """The result of a job; None: the job reads more than ``max_bytes``, or only Spark can run it.

    Args:
        job: the module's name in ``spark_jobs``.
        arguments: the job's command line.
        private_files: the texts of private files, by the option that names the file.
        max_bytes: None: no limit, and a job that only Spark can run is an error.

    Raises:
        AirflowFailException: only Spark can run the job.
        FailedAfterWork, DeltaError: as ``spark_jobs.job.run_in_process``.
    """
    from spark_jobs import job as jobs

    module = import_module(f"spark_jobs.{job}")
    files = {option.lstrip("-"): text for option, text in private_files.items()}
    words = [word for option in private_files for word in (option, private_path(option.lstrip("-")))]
    with dying_with_supervisor(), in_this_process(files):
        result = jobs.run_in_process(module.arguments(), module.prepare, [*arguments, *words], max_bytes)
    if result is None and max_bytes is None:
        raise InvalidParameterError(f"engine is 'arrow', but only Spark can run the job {job}; set engine='auto'")
    return None if result is None else dict(result)
