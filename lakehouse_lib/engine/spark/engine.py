"""The engine that runs on Spark: Python workers run the file tasks, and Spark itself reads and writes rows.

Rows cross between the JVM and Python only in these cases:

- ``exchange`` on a cluster or on Spark Connect: Spark shuffles the pieces as blobs.
- ``write`` with the library's writer in Python workers: if renames in the store are expensive, if the caller sets
  ``WriterProperties`` that Spark's writer does not have, or if the files contain copies of partition columns.
- ``write`` of Arrow data: the driver sends the rows to Spark.
- ``compute``: the driver sends the rows (the source of a merge) to Spark, and gets the computed columns.
- ``write`` of rows that violate a rule: the driver gets up to ten of these rows for the error.

The engine uses only Spark's DataFrame API, not RDDs.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from lakehouse_lib.arrow.streams import rows_of
from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.balanced_shares import balanced_shares
from lakehouse_lib.engine.base import Engine, OnTask, Piece, WriteTarget, after
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.engine.parquet.matching import bytes_of_matches, match_files
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.engine.parquet.updating import run_update_tasks, update_tasks
from lakehouse_lib.engine.scratch_folders import scratch_folder
from lakehouse_lib.engine.shared import InScratchFile, InTask, Shared
from lakehouse_lib.engine.spark import workers
from lakehouse_lib.engine.spark.columns import as_schema, struct_type
from lakehouse_lib.engine.spark.connect import context_of
from lakehouse_lib.engine.spark.disk_exchange import ScatterToDisk, by_group, gather_from_disk, scatter_to_disk
from lakehouse_lib.engine.spark.observed_tasks import observed
from lakehouse_lib.engine.spark.read import matching, reading
from lakehouse_lib.engine.spark.read.computed_rows import computed_rows
from lakehouse_lib.engine.spark.session_settings import session_settings
from lakehouse_lib.engine.spark.tasks import PIECES, RESULTS, gather_pieces, group_rows, run_tasks, scatter_pieces
from lakehouse_lib.engine.spark.write import (
    computing,
    optimized_write,
    row_checks,
    spark_writer,
    updating,
    worker_writer,
)
from lakehouse_lib.errors import DeltaError, StoreError, UnsupportedFeatureError
from lakehouse_lib.expressions import Predicate, Value
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import align_batches
from lakehouse_lib.snapshot import Snapshot

T = TypeVar("T")
G = TypeVar("G")


#: The driver itself reads this number of bytes of data files in less time than Spark needs to start tasks.
_DRIVER_BYTES = 256 << 20
#: Several small tasks are put into one Spark task, because a Spark task takes about 70 ms to start. A Spark task has
#: about this number of bytes on average, and less if there would be fewer than two Spark tasks for each slot. Two
#: balance better than one, if some take longer than others.
_TASK_BYTES = 128 << 20
_LEAST_ROUNDS = 2
#: Texts in Spark's error report if a worker runs another Python version, or a Python without this library or pyarrow.
_UNFIT_WORKER = ("ModuleNotFoundError", "PACKAGE_NOT_INSTALLED", "PYTHON_VERSION_MISMATCH")
_PY4J_MARK = "\n: "  # separates py4j's message from that of the Java exception
_JVM_MARK = "\n\nJVM stacktrace:"  # Spark Connect: separates the message from Java's stack trace


class SparkEngine:
    """The engine that runs tasks, reads and writes on a Spark session.

    Args:
        spark: a ``SparkSession``. Its Python workers need this library and pyarrow. Tables on a disk must have the same
            paths on the driver and the executors as in this process. Spark reads other stores with Hadoop's file
            systems.
    """

    name = "spark"

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def __repr__(self) -> str:
        return f"SparkEngine(parallelism={self.parallelism})"

    @cached_property
    def parallelism(self) -> int:
        context = context_of(self.spark)
        if context is None:  # Spark Connect: a range has this number of partitions
            return int(self.spark.range(1 << 20).selectExpr("spark_partition_id() AS p").distinct().count())
        return int(context.defaultParallelism)

    @cached_property
    def shares_disk(self) -> bool:
        """Whether tasks run on the machine of this process, so that an exchange can store pieces on its disk."""
        return workers.runs_here(self.spark)

    @property
    def local_folder(self) -> str:
        """The folder of Spark's shuffle files. Its disk must have room for all pieces of an exchange."""
        return str(self.spark.conf.get("spark.local.dir", tempfile.gettempdir())).split(",")[0]

    def for_bytes(self, count: int) -> Engine:
        return ArrowEngine() if count <= _DRIVER_BYTES else self

    def run(
        self,
        function: Callable[[T], pa.Table],
        tasks: Sequence[T],
        on_task: OnTask | None = None,
        sizes: Sequence[int] | None = None,
    ) -> pa.Table:
        if not tasks:
            return pa.Table.from_batches([], FILE_SCHEMA)
        with spark_failures(), observed(self.spark, run_tasks, on_task) as run:
            return self._results(self._tasks(function, tasks, sizes).mapInArrow(run, RESULTS))

    @contextmanager
    def share(self, value: Any) -> Iterator[Shared]:
        if not self.shares_disk:
            yield InTask(value)
            return
        with scratch_folder(self.local_folder) as folder:
            yield InScratchFile.write(value, folder)

    def exchange(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
        on_task: OnTask | None = None,
    ) -> pa.Table:
        if not tasks or not groups:
            return pa.Table.from_batches([], FILE_SCHEMA)
        if self.shares_disk:
            return self._exchange_on_disk(scatter, gather, tasks, groups, on_task)
        targets = self.spark.createDataFrame(group_rows([pickle.dumps((gather, group)) for group in groups]), PIECES)
        with (
            spark_failures(),
            observed(self.spark, scatter_pieces, on_task) as send,
            observed(self.spark, gather_pieces, after(len(tasks), on_task)) as receive,
        ):
            pieces = self._tasks(scatter, tasks).mapInArrow(send, PIECES)
            placed = targets.unionAll(pieces).repartitionById(len(groups), "group")
            ordered = placed.sortWithinPartitions("group", "ord", "task", "position")
            return self._results(ordered.mapInArrow(receive, RESULTS))

    def _exchange_on_disk(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
        on_task: OnTask | None,
    ) -> pa.Table:
        with scratch_folder(self.local_folder) as folder:
            sent = [ScatterToDisk(scatter, task, number, folder) for number, task in enumerate(tasks)]
            index = self.run(scatter_to_disk, sent, on_task)
            gathers = by_group(index, gather, groups)
            return self.run(gather_from_disk, gathers, after(len(tasks), on_task), [task.size for task in gathers])

    def write(self, data: Any, target: WriteTarget) -> pa.Table:
        rows = incoming(data)
        frame = rows.rows
        if not rows.is_spark:
            batches = align_batches(rows.rows, target.layout.schema, table=target.store.root)
            table = pa.Table.from_batches(batches, nullable(target.layout.schema.to_arrow()))
            frame = self.spark.createDataFrame(table, struct_type(as_schema(target.layout.schema)))
        checks = row_checks.row_checks(target)
        settings = updating.SETTINGS if target.computed.names else {}  # for the expressions of computed columns
        with spark_failures():
            shaped, failures = spark_writer.shaped(frame, target)
            shaped = computing.with_computed(shaped, target.computed.without(rows.schema.names), target)
        try:
            with spark_failures():
                with session_settings(self.spark, settings):
                    checked = row_checks.with_checks(shaped, checks, target)
                gathered = optimized_write.rebalanced(checked, target)
                with session_settings(self.spark, optimized_write.settings(target)):
                    if target.store.spark_access(target.store.root).renames and spark_writer.can_write(target):
                        return spark_writer.write_frame(gathered, target, self)
                    workers.make_ready(self.spark)
                    return self._results(worker_writer.files_of(gathered, target))
        except StoreError as error:
            with session_settings(self.spark, settings):
                refusal = row_checks.refusal(error, shaped, [*failures, *checks], target)
            if refusal is None:
                raise
            raise refusal from error

    def match(self, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
        if not is_renderable(predicate.root):
            with spark_failures():
                return matching.matching_rows(self.spark, snapshot, files, predicate)
        return match_files(self, snapshot, files, predicate)

    def update(
        self, snapshot: Snapshot, files: pa.Table, matches: pa.Table, values: Mapping[str, Value], target: WriteTarget
    ) -> pa.Table:
        needs_spark = any(rule.needs_spark for rule in target.rules)
        if not needs_spark and all(is_renderable(value.root) for value in values.values()):
            engine = self.for_bytes(bytes_of_matches(files, matches))
            return run_update_tasks(engine, update_tasks(target, files, matches, values, engine.parallelism), target)
        if target.layout.row_ids is not None:
            raise UnsupportedFeatureError(
                "an update cannot use a value or a constraint that only Spark can evaluate: the table has row tracking "
                "(rowTracking), and Spark's writer does not keep row ids",
                table=target.store.root,
                version=snapshot.version,
                hint="Use values and constraints with the SQL that docs/updating.md lists for both engines",
            )
        with spark_failures(), session_settings(self.spark, updating.SETTINGS):
            frame = updating.updated_frame(self.spark, snapshot, files, matches, values)
            frame = frame.drop(*target.computed.recomputed(values).names)  # the write computes them anew
            return self.write(frame, target)

    def compute(self, rows: pa.Table, alias: str, columns: Mapping[str, str]) -> pa.Table | None:
        with spark_failures(), session_settings(self.spark, updating.SETTINGS):
            return computed_rows(self.spark, rows, alias, columns)

    def read(self, snapshot: Snapshot, columns: Sequence[str] | None, predicate: Predicate | None) -> Any:
        scan = Scan.of(snapshot, columns, predicate)
        with spark_failures():
            return reading.read_frame(self.spark, snapshot, scan, snapshot.prune(predicate))

    def _tasks(
        self,
        function: Callable[[T], pa.Table] | Callable[[T], Iterator[Piece]],
        tasks: Sequence[T],
        sizes: Sequence[int] | None = None,
    ) -> Any:
        """A data frame with a row (position, task, partition) for each task."""
        workers.make_ready(self.spark)
        if sizes is None:
            shares = [[position] for position in range(len(tasks))]
        else:
            rounds = max(_LEAST_ROUNDS, -(-sum(sizes) // (_TASK_BYTES * self.parallelism)))
            shares = balanced_shares(sizes, rounds * self.parallelism)
        numbers = [number for number, share in enumerate(shares) for _ in share]
        positions = [position for share in shares for position in share]
        payloads = [pickle.dumps((function, tasks[position])) for position in positions]
        rows = {
            "position": pa.array(positions, pa.int32()),
            "task": pa.array(payloads, pa.binary()),
            "partition": pa.array(numbers, pa.int32()),
        }
        frame = self.spark.createDataFrame(pa.table(rows))
        # Spark gives each partition to a free executor. One task needs no shuffle.
        return frame if len(tasks) == 1 else frame.repartitionById(len(shares), "partition")

    def _results(self, frame: Any) -> pa.Table:
        rows = frame.collect()
        for row in rows:
            if row.error is not None:
                raise _error(row.error)
        rows.sort(key=lambda row: row.position)
        tables = [rows_of(pa.py_buffer(bytes(row.result))) for row in rows]
        return pa.concat_tables(tables) if tables else pa.Table.from_batches([], FILE_SCHEMA)


def _error(data: bytes) -> DeltaError:
    error = pickle.loads(data)  # noqa: S301 - written by a task of this job
    return error if isinstance(error, DeltaError) else DeltaError(f"a Spark task failed: {error}")


@contextmanager
def spark_failures() -> Iterator[None]:
    """Raise errors of Spark as a ``StoreError`` with one line of text; the whole report is the error's cause."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:  # Py4JJavaError: PySpark has no class for the Java exception
        report = str(error)
        gist = _gist(report.partition(_PY4J_MARK)[2] or report)
        unfit = any(mark in report for mark in _UNFIT_WORKER)
        raise StoreError(
            f"the Spark job failed: {gist}",
            hint=workers.hint() if unfit else "Spark's log has the whole report",
            code="DELTA_SPARK_JOB_FAILED",
        ) from error


def _gist(report: str) -> str:
    """The most useful line of an error report: the last line of a Python traceback, else the first line."""
    report = report.partition(_JVM_MARK)[0]
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        messages = [line for line in lines if not line.startswith(("File ", "at ", "^", "SQLSTATE"))]
        return messages[-1] if messages else lines[-1]
    return lines[0] if lines else "no message"
