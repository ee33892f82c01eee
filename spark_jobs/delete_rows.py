"""Delete the rows of a table for which a predicate is true. Rows for which the predicate is NULL stay."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import DELETE_ROWS
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(DELETE_ROWS.name, DELETE_ROWS.description, DELETE_ROWS.parameters)


prepare = on_table(DELETE_ROWS)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
