"""Delete the rows of a table for which a predicate is true; those for which it is NULL stay."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.errors import InvalidPredicateError
from spark_jobs.job import Arguments, Result, read_text_file, run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def arguments() -> Arguments:
    parser = Arguments(
        "delete_rows", "Delete the rows for which a SQL predicate is true; rows for which it is NULL stay."
    )
    parser.add_argument("--table", required=True, metavar="URI")
    predicate = parser.add_mutually_exclusive_group(required=True)
    predicate.add_argument("--predicate", metavar="SQL")
    predicate.add_argument("--predicate-file", metavar="FILE", help="a file that holds the predicate, for a long one")
    return parser


def prepare(options: Namespace) -> Callable[[SparkSession], Result]:
    from lakehouse_lib import DeltaTable

    predicate = options.predicate
    if predicate is None:
        predicate = read_text_file(options.predicate_file, "the predicate file")
    require_predicate(predicate, options.table)
    storage_options = options.storage_options.get(options.table)
    DeltaTable(options.table, storage_options=storage_options)

    def run(spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        table = DeltaTable(options.table, storage_options=storage_options, engine=SparkEngine(spark))
        metrics = table.delete(predicate)
        return {"table": options.table, "version": metrics["version"], "metrics": metrics}

    return run


def require_predicate(predicate: str, table: str) -> None:
    """The library takes no predicate for every row; a job that got an empty one by mistake must not."""
    if not predicate.strip():
        raise InvalidPredicateError(
            "the predicate is empty", table=table, hint="Write TRUE to delete every row of the table"
        )


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
