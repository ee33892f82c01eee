"""Load source files from a landing folder into a table, exactly once, through its schema and its quality suite."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.job import Arguments, FailedAfterWork, Result, names, positive, read_json_file, read_text_file, run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse_lib.ingestion.load_result import LoadResult


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def arguments() -> Arguments:
    parser = Arguments(
        "ingest",
        "Load source files from a landing folder into a Delta table, exactly once, whenever it is killed. Rows that "
        "cannot be read, or that break a rule of the suite, go to the quarantine table; a file whose columns do not "
        "fit is refused whole. Files named .*, _* and *.tmp are left alone.",
    )
    parser.add_argument("--table", required=True, metavar="URI", help="created by the first batch")
    parser.add_argument("--landing", required=True, metavar="DIR", help="a flat folder of source files")
    parser.add_argument("--source", required=True, metavar="NAME", help="who sends them; kept in the table's log")
    parser.add_argument("--format", required=True, choices=("csv", "json", "parquet"), help="json: one object a line")
    parser.add_argument("--schema", required=True, metavar="FILE", help="the table's schema, as Delta schema JSON")
    parser.add_argument("--quarantine", required=True, metavar="URI", help="the table of rejected rows")
    parser.add_argument("--suite", metavar="FILE", help="a Great Expectations suite; each rule has a meta.rule_id")
    parser.add_argument("--delimiter", default=",", metavar="C", help="of CSV; default: ,")
    parser.add_argument("--quote", default='"', metavar="C", help='of CSV; default: "')
    parser.add_argument("--encoding", default="utf-8", metavar="NAME", help="of CSV and JSON; default: utf-8")
    parser.add_argument("--null-text", default="", metavar="TEXT", help="an unquoted CSV field that is NULL")
    parser.add_argument("--no-header", action="store_true", help="CSV without names: columns in the schema's order")
    parser.add_argument("--partition-by", type=names, default=(), metavar="A,B", help="of a table to be created")
    parser.add_argument("--files-per-batch", type=positive, default=1, metavar="N", help="files a commit; default: 1")
    parser.add_argument(
        "--settle-seconds",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="a file modified less than S seconds ago, or whose size changes during the run, waits; default: 0",
    )
    parser.add_argument(
        "--target-file-size",
        type=positive,
        metavar="BYTES",
        help="default: the table's delta.targetFileSize, else 100 MiB",
    )
    parser.add_argument(
        "--refused",
        choices=("fail", "report"),
        default="fail",
        help="a refused file fails the job after the others are loaded (default), or is only reported",
    )
    parser.add_argument(
        "--give-up",
        action="store_true",
        help="give up a half-done batch whose files are lost; its files are new again. Refused once a run has decided "
        "to commit the batch, so a file is never loaded twice",
    )
    return parser


def prepare(options: Namespace) -> Callable[[SparkSession], Result] | Result:
    from lakehouse_lib.ingestion.load import Load
    from lakehouse_lib.ingestion.source import Source
    from lakehouse_lib.ingestion.sources.source_format import SourceFormat
    from lakehouse_lib.schema import Schema

    source = Source(
        options.table,
        Path(options.landing).absolute(),
        options.source,
        SourceFormat(
            options.format,
            options.delimiter,
            options.quote,
            options.encoding,
            not options.no_header,
            options.null_text,
        ),
        Schema.from_json(read_text_file(options.schema, "the schema file")),
        None if options.suite is None else read_json_file(options.suite, "the suite file"),
        options.quarantine,
        options.partition_by,
        options.files_per_batch,
        options.settle_seconds,
        options.target_file_size,
        options.storage_options,
    )
    load = Load(source)
    if options.give_up:
        load.give_up()
    result = load.nothing_to_do()
    if result is not None:
        return _line(result, options.refused)

    def run(spark: SparkSession) -> Result:
        return _line(load.run(spark), options.refused)

    return run


def _line(result: LoadResult, refused: str) -> Result:
    error = result.error(refusals_fail=refused == "fail")
    if error is not None:
        raise FailedAfterWork(error, result.to_dict())
    return result.to_dict()


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
