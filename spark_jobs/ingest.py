"""Load files from a landing folder into a table, each file exactly once, and check the rows by schema and suite."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from lakehouse_lib.catalogue import INGEST
from spark_jobs.job import FailedAfterWork, Result, run_job
from spark_jobs.process.command_line import Arguments, read_json_file, read_text_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse_lib.ingestion.load import Load
    from lakehouse_lib.ingestion.load_result import LoadResult


def arguments() -> Arguments:
    return Arguments(INGEST.name, INGEST.description, INGEST.parameters)


def prepare(options: Namespace) -> Callable[[SparkSession], Result] | Result:
    from lakehouse_lib.errors import DeltaError
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

    def run(spark: SparkSession | None = None) -> Result:
        try:
            result = load.run(spark, on_progress=on_progress)
        except DeltaError as error:
            result = _partial_result(load)
            if result is None:
                raise
            raise FailedAfterWork(error, result.to_dict()) from error
        return _result_of(result, options.refused)

    return run if load.needs_spark() else run()


def _partial_result(load: Load) -> LoadResult | None:
    """The result of the batches that a failed run has loaded; None: it has loaded none, or the store has failed."""
    from lakehouse_lib.errors import DeltaError

    with suppress(DeltaError):
        return load.partial_result()
    return None


def _result_of(result: LoadResult, refused: Literal["once", "fail", "report"]) -> Result:
    error = result.error(refused)
    if error is not None:
        raise FailedAfterWork(error, result.to_dict())
    return result.to_dict()


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
