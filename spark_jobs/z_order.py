"""Lay the rows of a table out so that predicates on any of some columns skip most files."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from spark_jobs.job import Arguments, Result, names, positive, run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def arguments() -> Arguments:
    parser = Arguments("z_order", "Cluster a Delta table, so that predicates on these columns skip most of its files.")
    parser.add_argument("--table", required=True, metavar="URI")
    parser.add_argument("--columns", required=True, type=names, metavar="A,B", help="the columns predicates are about")
    parser.add_argument(
        "--target-file-size",
        type=positive,
        metavar="BYTES",
        help="default: the table's delta.targetFileSize, else 100 MiB",
    )
    parser.add_argument("--full", action="store_true", help="rewrite files, too, that are clustered already")
    return parser


def prepare(options: Namespace) -> Callable[[SparkSession], Result]:
    from lakehouse_lib import DeltaTable

    storage_options = options.storage_options.get(options.table)
    DeltaTable(options.table, storage_options=storage_options)

    def run(spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        table = DeltaTable(options.table, storage_options=storage_options, engine=SparkEngine(spark))
        metrics = table.optimize.z_order(list(options.columns), target_size=options.target_file_size, full=options.full)
        return {"table": options.table, "version": metrics["version"], "metrics": metrics}

    return run


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
