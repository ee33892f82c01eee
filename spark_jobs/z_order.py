"""Z-order a table, so that predicates on the chosen columns skip most files."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import Z_ORDER
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(Z_ORDER.name, Z_ORDER.description, Z_ORDER.parameters)


prepare = on_table(Z_ORDER)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
