"""The engine of a command: this process, or Spark."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from lakehouse_lib.errors import DeltaError

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine


def add_engine(parser: ArgumentParser) -> None:
    """Add the option for the engine that rewrites files."""
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        help="rewrite files with Spark on this master, such as local[*]; Spark starts when the first file is "
        "rewritten. Default: this process",
    )


@contextmanager
def engine_of(arguments: Namespace) -> Iterator[Callable[[], Engine]]:
    """A function that returns the engine. Its first call starts Spark, and the end of the block stops Spark."""
    with ExitStack() as stack:
        engines: list[Engine] = []

        def engine() -> Engine:
            if not engines:
                engines.append(_start(arguments.spark, stack))
            return engines[0]

        yield engine


def _start(master: str | None, stack: ExitStack) -> Engine:
    if master is None:
        from lakehouse_lib.engine.arrow.engine import ArrowEngine

        return ArrowEngine()
    try:
        from lakehouse_lib.engine.spark.engine import SparkEngine
        from lakehouse_lib.engine.spark.session import spark_session

        return SparkEngine(stack.enter_context(spark_session("lakehouse", master)))
    except Exception as error:  # the error may be of Python, py4j or Java
        first_line = (str(error).splitlines() or [""])[0]
        raise DeltaError(
            f"Spark on the master {master!r} cannot be started: {type(error).__name__}: {first_line}",
            hint="Install lakehouse-lib[spark] and Java, and check the master",
            code="DELTA_SPARK_NOT_STARTED",
        ) from error
