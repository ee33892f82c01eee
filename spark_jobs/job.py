"""What all jobs share: arguments in, a Spark session, one JSON object as the last line of standard output.

``python -m spark_jobs.NAME`` and ``spark-submit .../NAME.py`` do the same; only the latter brings a master and
properties of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from spark_jobs.parent_process import die_with_parent
from spark_jobs.private_files import is_private, read_private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = Mapping[str, Any]
#: Checks the arguments without Spark. Returns what is left to do with it, or the result when that is nothing.
Prepare = Callable[[argparse.Namespace], "Callable[[SparkSession], Result] | Result"]
#: Environment variable of a driver that spark-submit has started: the port of the JVM, which is its parent.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


class FailedAfterWork(Exception):
    """Part of the job is done and stays done, and yet the job has failed; ``result`` says what is done."""

    def __init__(self, error: Exception, result: Result) -> None:
        super().__init__(error, result)
        self.error = error
        self.result = result


class Arguments(argparse.ArgumentParser):
    """A parser whose errors are the job's errors."""

    def __init__(self, job: str, description: str) -> None:
        super().__init__(prog=f"spark_jobs.{job}", description=description, allow_abbrev=False)
        self.job = job
        self.add_argument(
            "--storage-options-file",
            dest="storage_options",
            type=_storage_options,
            default={},
            metavar="FILE",
            help="JSON, {location: {option: value}}, of tables whose store needs some; in a file, because everybody on "
            "the machine sees command lines",
        )

    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(message, hint=f"See python -m spark_jobs.{self.job} --help")


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


def read_json_file(path: str, what: str) -> Any:
    """A JSON file named on the command line; InvalidArgumentError when it cannot be read or is none."""
    return parse_json(read_text_file(path, what), path, what)


def parse_json(text: str, path: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} {path} is not JSON: {error}", hint="Correct the file") from error


def read_text_file(path: str, what: str) -> str:
    """A text file named on the command line, or a private one; InvalidArgumentError when it cannot be read."""
    try:
        return read_private(path) if is_private(path) else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidArgumentError(f"{what} {path} cannot be read: {reason}", hint="Name a readable file") from error


def _storage_options(path: str) -> dict[str, dict[str, str]]:
    """Storage options by location from a JSON file; an argparse type. Its error shows no value, which may be secret."""
    try:
        options_by_location = read_json_file(path, "the file of storage options")
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if not isinstance(options_by_location, dict) or not all(
        options is None or isinstance(options, dict) for options in options_by_location.values()
    ):
        raise argparse.ArgumentTypeError(
            f'{path} is no JSON object of objects, such as {{"LOCATION": {{"OPTION": "text"}}}}'
        )
    return {location: options for location, options in options_by_location.items() if options}


def names(text: str) -> tuple[str, ...]:
    """Comma-separated column names; an argparse type."""
    columns = tuple(name.strip() for name in text.split(","))
    if not all(columns):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid list of column names")
    return columns


def positive(text: str) -> int:
    """A whole number of at least 1; an argparse type."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


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
