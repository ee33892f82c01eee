"""Command lines of jobs."""

from __future__ import annotations

from pathlib import Path

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from spark_jobs.process.command_line import file_option


def command_line_of(operator: LakehouseJobOperator, folder: Path) -> list[str]:
    """The arguments of the job, with private files as files."""
    hook = LakehouseHook()
    line = operator.arguments(hook)
    for name, text in operator.private_files(hook).items():
        (folder / name).write_text(text)
        line += [file_option(operator.job_parameters, name), str(folder / name)]
    return line
