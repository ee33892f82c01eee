"""Add statistics that are missing in the log of a table."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import COMPUTE_STATISTICS
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(COMPUTE_STATISTICS.name, COMPUTE_STATISTICS.description, COMPUTE_STATISTICS.parameters)


prepare = on_table(COMPUTE_STATISTICS)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
