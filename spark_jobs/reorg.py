"""Rewrite files of a table without deleted rows and dropped columns."""

from __future__ import annotations

import sys

from lakehouse_lib.catalogue import REORG
from spark_jobs.job import on_table, run_job
from spark_jobs.process.command_line import Arguments


def arguments() -> Arguments:
    return Arguments(REORG.name, REORG.description, REORG.parameters)


prepare = on_table(REORG)

if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
