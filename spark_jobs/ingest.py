"""Load files from a landing folder into a table, each file exactly once, and check the rows by schema and suite."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue import INGEST
from spark_jobs.command_line import Arguments, read_json_file, read_text_file
from spark_jobs.job import FailedAfterWork, Result, run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse_lib.ingestion.load_result import LoadResult


def arguments() -> Arguments:
    return Arguments(INGEST.name, INGEST.description, INGEST.parameters)


def prepare(options: Namespace) -> Callable[[SparkSession], Result] | Result:
    from lakehouse_lib.ingestion.load import Load
    from lakehouse_lib.ingestion.source import Source
    from lakehouse_lib.progress import log_observer

    source = Source.of(
        vars(options),
        schema=read_text_file(options.schema, "the schema file"),
        suite=None if options.suite is None else read_json_file(options.suite, "the suite file"),
        storage_options=options.storage_options,
    )
    load = Load(source)
    if options.give_up:
        load.give_up()
    on_progress = log_observer(f"ingest into {options.table}")
    result = load.nothing_to_do()
    if result is not None:
        return _result_of(result, options.refused)
    if not load.needs_spark():
        return _result_of(load.run(on_progress=on_progress), options.refused)

    def run(spark: SparkSession) -> Result:
        return _result_of(load.run(spark, on_progress=on_progress), options.refused)

    return run


def _result_of(result: LoadResult, refused: str) -> Result:
    error = result.error(refusals_fail=refused == "fail")
    if error is not None:
        raise FailedAfterWork(error, result.to_dict())
    return result.to_dict()


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
