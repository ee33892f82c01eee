"""Set columns to new values in the rows of a table for which a predicate is true, or in all rows."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import UPDATE_ROWS
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(UPDATE_ROWS.name, UPDATE_ROWS.description, UPDATE_ROWS.parameters)


prepare = on_table(UPDATE_ROWS)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
