"""What all jobs share: arguments in, a Spark session, one JSON object as the last line of standard output.

``python -m spark_jobs.NAME`` and ``spark-submit .../NAME.py`` do the same; only the latter brings a master and
properties of its own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidPredicateError
from spark_jobs.command_line import Arguments
from spark_jobs.parent_process import die_with_parent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_lib.catalogue import TableOperation

Result = Mapping[str, Any]
#: Checks the arguments without Spark. Returns what is left to do with it, or the result when that is nothing.
Prepare = Callable[[Namespace], "Callable[[SparkSession], Result] | Result"]
#: Environment variable of a driver that spark-submit has started: the port of the JVM, which is its parent.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


class FailedAfterWork(Exception):
    """Part of the job is done and stays done, and yet the job has failed; ``result`` says what is done."""

    def __init__(self, error: Exception, result: Result) -> None:
        super().__init__(error, result)
        self.error = error
        self.result = result


def run_job(arguments: Arguments, prepare: Prepare, argv: Sequence[str] | None = None) -> int:
    """Run a job and print its line: ``{"lakehouse": "result" | "error", "job": ...}``.

    Returns:
        the exit code, 0 or 1. An error of this library is one message; any other leaves its traceback on standard
        error as well.
    """
    if _SUBMITTED in os.environ:
        # Without its JVM the job must commit nothing. One that is gone already is missed by the session.
        die_with_parent()
    # Nothing but the line may go to standard output, whatever libraries print.
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        try:
            # --help prints to the real standard output and leaves here.
            with contextlib.redirect_stdout(sys.__stdout__):
                parsed = arguments.parse_args(argv)
            todo = prepare(parsed)
            result = todo(stack.enter_context(_session(arguments.job))) if callable(todo) else todo
            line = {"lakehouse": "result", "job": arguments.job, **result}
        except DeltaError as error:
            line = _error_line(arguments.job, error)
        except FailedAfterWork as failure:
            line = {**_error_line(arguments.job, failure.error), "result": failure.result}
        except Exception as error:
            traceback.print_exc()
            line = _error_line(arguments.job, error)
    # In ASCII: names and paths may have characters that this machine's output cannot take.
    print(json.dumps(line), flush=True)  # noqa: T201
    return 0 if line["lakehouse"] == "result" else 1


def on_table(operation: TableOperation) -> Prepare:
    """The ``prepare`` of a job that runs an operation on the table that its arguments name."""

    def prepare(options: Namespace) -> Callable[[SparkSession], Result]:
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.store import open_store

        arguments = {parameter.name: getattr(options, parameter.name) for parameter in operation.parameters}
        table: str = arguments.pop("table")
        for parameter in operation.parameters:
            if parameter.kind == "condition":
                require_predicate(arguments[parameter.name], table)
        # A table that is not there needs no Spark to say so.
        snapshot = load_snapshot(open_store(table, options.storage_options.get(table)))

        def run(spark: SparkSession) -> Result:
            from lakehouse_lib.engine.spark.engine import SparkEngine

            result = operation.run(snapshot.update(), SparkEngine(spark), **arguments)
            return {**result.to_dict(), "table": table}

        return run

    return prepare


def require_predicate(predicate: str, table: str) -> None:
    """The library takes no predicate for every row; a job that got an empty one by mistake must not."""
    if not predicate.strip():
        raise InvalidPredicateError(
            "the predicate is empty", table=table, hint="Write TRUE to delete every row of the table"
        )


@contextlib.contextmanager
def _session(job: str) -> Any:
    """A session on the master that spark-submit gave, else on all cores of this machine."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # repeats each error with its Java stack
    SparkContext._ensure_initialized()  # or the conf below would not see what spark-submit has set
    conf = SparkConf()
    conf.setIfMissing("spark.master", "local[*]")
    if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":
        conf.set("spark.app.name", f"lakehouse-{job}")
    conf.setIfMissing("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")  # a Python process has it on by default
    conf.set("spark.sql.session.timeZone", "UTC")
    # Tasks carry storage options and predicates, and Spark writes tasks to local files, which stay when it is killed.
    conf.setIfMissing("spark.io.encryption.enabled", "true")
    if conf.get("spark.master", "").startswith("local"):
        conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
        conf.setIfMissing("spark.driver.host", "127.0.0.1")
        conf.setIfMissing("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
        if not conf.contains("spark.pyspark.python"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _error_line(job: str, error: Exception) -> dict[str, Any]:
    line = {"lakehouse": "error", "job": job, "type": type(error).__name__}
    if isinstance(error, DeltaError):
        return {**line, "code": error.code, "message": str(error)}
    return {**line, "message": (str(error).splitlines() or [""])[0]}
