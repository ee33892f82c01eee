"""Merge the small files of a table into files of about the target size."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from spark_jobs.job import Arguments, Result, positive, run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def arguments() -> Arguments:
    parser = Arguments("compact", "Merge the small files of a Delta table into files of about the target size.")
    parser.add_argument("--table", required=True, metavar="URI")
    parser.add_argument(
        "--target-file-size",
        type=positive,
        metavar="BYTES",
        help="default: the table's delta.targetFileSize, else 100 MiB",
    )
    return parser


def prepare(options: Namespace) -> Callable[[SparkSession], Result]:
    from lakehouse_lib import DeltaTable

    storage_options = options.storage_options.get(options.table)
    DeltaTable(options.table, storage_options=storage_options)  # a table that is not there needs no Spark to say so

    def run(spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        table = DeltaTable(options.table, storage_options=storage_options, engine=SparkEngine(spark))
        metrics = table.optimize.compact(target_size=options.target_file_size)
        return {"table": options.table, "version": metrics["version"], "metrics": metrics}

    return run


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
