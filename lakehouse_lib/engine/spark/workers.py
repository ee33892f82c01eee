"""The check that the Python workers of a Spark session can import this library.

A worker runs the interpreter that ``PYSPARK_PYTHON`` names. Without this variable, it runs the first ``python3`` on its
machine's path; on a local master, ``make_ready`` sets the interpreter of this process instead.
"""

from __future__ import annotations

import os
import re
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakehouse_lib import distribution
from lakehouse_lib.engine.spark.connect import context_of
from lakehouse_lib.errors import StoreError

_ready: weakref.WeakSet[Any] = weakref.WeakSet()
_ANSWER = "python string, version string, error string"


def runs_here(spark: Any) -> bool:
    """Whether the session's tasks run on the machine of this process."""
    context = context_of(spark)
    if context is None:  # the server of Spark Connect may be on another machine
        return False
    return re.fullmatch(r"local(\[.*\])?", context.master) is not None


def make_ready(spark: Any) -> None:
    """Make sure, once per session, that its workers can run this library's tasks.

    On a local master, workers are set to the interpreter of this process, unless PYSPARK_PYTHON is set. On other
    masters and on Spark Connect, a task tries to import the library.

    Raises:
        StoreError: the task cannot import the library, or imports another version; the hint says what to set.
    """
    if spark in _ready:
        return
    if runs_here(spark):
        if "PYSPARK_PYTHON" not in os.environ:
            spark.sparkContext.pythonExec = sys.executable  # Spark reads it for each Python function
    else:
        _check(spark)
    _ready.add(spark)


def hint() -> str:
    """The hint for workers that lack the library."""
    python = "{}.{}".format(*sys.version_info[:2])
    return (
        f"Set PYSPARK_PYTHON (spark.pyspark.python for spark-submit) to a Python {python} that has "
        f"{distribution.NAME} {distribution.VERSION} on every executor, or send the library with --py-files (Spark "
        "Connect: spark.addArtifacts with pyfile=True) to a Python that has pyarrow, numpy and pyroaring"
    )


def _check(spark: Any) -> None:
    (answer,) = spark.range(1).coalesce(1).mapInArrow(_question(), _ANSWER).collect()
    if answer.error is not None:
        raise StoreError(
            f"Spark's Python workers ({answer.python}) cannot import this library: {answer.error}",
            hint=hint(),
            code="DELTA_SPARK_CONFIGURATION",
        )
    if answer.version != distribution.VERSION:
        raise StoreError(
            f"Spark's Python workers ({answer.python}) have {distribution.NAME} {answer.version}; "
            f"expected {distribution.VERSION}",
            hint=hint(),
            code="DELTA_SPARK_CONFIGURATION",
        )


def _question() -> Any:
    """The function that a worker runs; it is nested, so that it is pickled by value and runs without the library."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import sys

        import pyarrow as pa

        installed = error = None
        try:
            importlib.import_module("lakehouse_lib.engine.spark.tasks")
            installed = importlib.import_module("lakehouse_lib.distribution").VERSION
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        for _ in batches:
            pass
        columns = [pa.array([value], pa.string()) for value in (sys.executable, installed, error)]
        yield pa.RecordBatch.from_arrays(columns, ["python", "version", "error"])

    return answer
