"""Merge the small files of a table into files of about the target size."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import COMPACT
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(COMPACT.name, COMPACT.description, COMPACT.parameters)


prepare = on_table(COMPACT)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
