"""Run a job: parse arguments, start Spark, and print one JSON object as the last line of standard output.

``python -m spark_jobs.NAME`` and ``spark-submit .../NAME.py`` run the same job. spark-submit also sets the master and
other properties of Spark.
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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse_lib.command_options import option
from lakehouse_lib.errors import DeltaError, InvalidPredicateError, UnsupportedFeatureError
from spark_jobs.process.command_line import JOB_FOLDER, Arguments
from spark_jobs.process.parent import die_with_parent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_lib.catalogue.operation import TableOperation
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.snapshot import Snapshot
    from spark_jobs.process.job_objects import JobObjects

logger = logging.getLogger(__name__)

Result = Mapping[str, Any]
#: A function that checks the arguments without Spark. It returns the rest of the job: an EngineWork if any engine can
#: run it, else a function of a session. If nothing is left to do, it returns the result of the job.
Prepare = Callable[[Namespace], "Callable[[SparkSession], Result] | Result"]
#: An environment variable of a driver that spark-submit has started: the port of the JVM, which is the driver's parent.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


@dataclass(frozen=True)
class EngineWork:
    """The part of a job that any engine can run.

    Attributes:
        run: runs this part on an engine, and returns the result of the job.
        snapshot: the version whose files the engine reads.
        bytes: the number of bytes that are read besides these files.
    """

    run: Callable[[Engine], Result]
    snapshot: Snapshot
    bytes: int = 0

    def __call__(self, spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        return self.run(SparkEngine(spark))


class FailedAfterWork(Exception):
    """A job failed after part of its work was committed; ``result`` describes the finished part."""

    def __init__(self, error: Exception, result: Result) -> None:
        super().__init__(error, result)
        self.error = error
        self.result = result


def run_job(arguments: Arguments, prepare: Prepare, argv: Sequence[str] | None = None) -> int:
    """Run a job and print its last line: ``{"lakehouse": "result" | "error", "job": ...}``.

    With ``--job-folder``, the line is also an object in this folder (``process.job_objects``). If the store refuses the
    object, its error is logged, and the line is printed nevertheless, because the job may have committed.

    Args:
        argv: the command line without the program; None: that of this process.

    Returns:
        The exit code, 0 or 1. The traceback of an error that is not a DeltaError is printed on standard error.
    """
    if _SUBMITTED in os.environ:
        # The job must not commit after its JVM was killed. If the JVM has already died, no session starts.
        die_with_parent()
    # The log is on standard error. It has warnings, and the progress of long jobs.
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("lakehouse_lib.progress").setLevel(logging.INFO)
    # Libraries may print, but standard output must have only the line.
    objects: JobObjects | None = None
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        try:
            objects = _job_objects(arguments.job, sys.argv[1:] if argv is None else argv)
            # --help prints to the real standard output and exits here.
            with contextlib.redirect_stdout(sys.__stdout__):
                parsed = arguments.parse_args(argv)
            from lakehouse_lib import commit_metadata  # after --help, because it imports pyarrow

            if objects is not None:
                stack.enter_context(objects.beating())
            stack.enter_context(commit_metadata(parsed.commit_metadata))
            work = prepare(parsed)
            result = (
                work(stack.enter_context(_session(arguments.job, parsed.spark_connect))) if callable(work) else work
            )
            line = {"lakehouse": "result", "job": arguments.job, **result}
        except DeltaError as error:
            line = _error_line(arguments.job, error)
        except FailedAfterWork as failure:
            line = {**_error_line(arguments.job, failure.error), "result": failure.result}
        except Exception as error:
            traceback.print_exc()
            line = _error_line(arguments.job, error)
        if objects is not None:
            try:
                objects.put_outcome(line)
            except DeltaError as error:
                logger.error("the outcome of the job is not in --job-folder: %s", error)
    # JSON in ASCII, because standard output may not support all characters of names and paths.
    print(json.dumps(line), flush=True)  # noqa: T201
    return 0 if line["lakehouse"] == "result" else 1


def run_in_process(arguments: Arguments, prepare: Prepare, argv: Sequence[str], max_bytes: int | None) -> Result | None:
    """Run a job in this process, without Spark, and return its result; None: the job needs Spark.

    Args:
        max_bytes: a job that reads more bytes of data files needs Spark. None: no limit.

    Raises:
        FailedAfterWork: the job failed after part of its work was committed.
        DeltaError: any other error of the library. A job that the Arrow engine does not support needs Spark; if
            ``max_bytes`` is None, its error is raised.
    """
    from lakehouse_lib.engine.arrow.bounded import BoundedEngine, WorkTooLargeError
    from lakehouse_lib.engine.arrow.engine import ArrowEngine

    work = prepare(arguments.parse_args(argv))
    if not callable(work):
        return {"job": arguments.job, **work}
    if not isinstance(work, EngineWork):
        return None
    try:
        engine = ArrowEngine() if max_bytes is None else BoundedEngine(work.snapshot, max_bytes, work.bytes)
        return {"job": arguments.job, **work.run(engine)}
    except (DeltaError, FailedAfterWork) as failure:
        error = failure.error if isinstance(failure, FailedAfterWork) else failure
        if isinstance(error, WorkTooLargeError):
            return None
        if max_bytes is None or not isinstance(error, (InvalidPredicateError, UnsupportedFeatureError)):
            raise
        logger.info("Spark runs the job, because the Arrow engine does not: %s", error.message)
        return None


def on_table(operation: TableOperation) -> Prepare:
    """The ``prepare`` of a job that runs an operation on the table in its arguments."""

    def prepare(options: Namespace) -> EngineWork:
        from lakehouse_lib.progress import log_observer
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.store import open_store

        arguments = {parameter.name: getattr(options, parameter.name) for parameter in operation.parameters}
        table: str = arguments.pop("table")
        for parameter in operation.parameters:
            if parameter.kind == "condition" and arguments[parameter.name] is not None:
                require_predicate(arguments[parameter.name], table)
        # The snapshot is loaded before Spark starts, so that a missing table is reported at once.
        snapshot = load_snapshot(open_store(table, options.storage_options.get(table)))

        def run(engine: Engine) -> Result:
            progress = {"on_progress": log_observer(f"{operation.name} of {table}")} if operation.has_progress else {}
            result = operation.run(snapshot.update(), engine, **arguments, **progress)
            return {**result.to_dict(), "table": table}

        return EngineWork(run, snapshot)

    return prepare


def require_predicate(predicate: str, table: str) -> None:
    """Refuse an empty predicate, because an empty predicate is probably a mistake.

    Raises:
        InvalidPredicateError: the predicate is empty.
    """
    if not predicate.strip():
        raise InvalidPredicateError(
            "the predicate is empty", table=table, hint="Write TRUE to select every row of the table"
        )


def _session(job: str, server: Mapping[str, Any] | None) -> contextlib.AbstractContextManager[SparkSession]:
    """A session of the Spark Connect server, else on the master of spark-submit, else on all cores of this machine."""
    if server is not None:
        from lakehouse_lib.engine.spark.connect import connect_session

        return connect_session(server["url"], server["properties"])
    from lakehouse_lib.engine.spark.session import spark_session

    return spark_session(f"lakehouse-{job}")


def _job_objects(job: str, argv: Sequence[str]) -> JobObjects | None:
    """The objects of the job in a store; None without ``--job-folder``.

    Only the options of the objects are parsed here. So an error in any other argument becomes an outcome, too.
    """
    if not any(argument.startswith(option(JOB_FOLDER.name)) for argument in argv):
        return None
    from spark_jobs.process.job_objects import JobObjects, job_place

    options, _ = Arguments(job, "", ()).parse_known_args(argv)
    place = job_place(options.job_folder, options.storage_options.get(options.job_folder))
    return JobObjects(place, options.job_name or "")


def _error_line(job: str, error: Exception) -> dict[str, Any]:
    line = {"lakehouse": "error", "job": job, "type": type(error).__name__}
    if isinstance(error, DeltaError):
        return {**line, "code": error.code, "message": str(error)}
    return {**line, "message": (str(error).splitlines() or [""])[0]}
