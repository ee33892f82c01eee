"""Add CHECK constraints to a table, if every row satisfies them."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import ADD_CONSTRAINT
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(ADD_CONSTRAINT.name, ADD_CONSTRAINT.description, ADD_CONSTRAINT.parameters)


prepare = on_table(ADD_CONSTRAINT)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
