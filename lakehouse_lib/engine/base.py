"""The interface of engines, which read and write data files.

An operation plans tasks (plain values), passes them to an engine with a function of this library, and commits the files
table that the engine returns. Files that an engine writes are not visible before this commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns
from lakehouse_lib.json_text import excerpt

if TYPE_CHECKING:
    from lakehouse_lib.engine.shared import Shared
    from lakehouse_lib.engine.writer_properties import WriterProperties
    from lakehouse_lib.expressions import Predicate, Value
    from lakehouse_lib.schema import RowRule, TableLayout
    from lakehouse_lib.snapshot import Snapshot
    from lakehouse_lib.store import ObjectStore

T = TypeVar("T")
G = TypeVar("G")

#: Called with the number of a task when the task has ended: from any thread, and again if the task is repeated.
OnTask: TypeAlias = Callable[[int], object]


def after(count: int, on_task: OnTask | None) -> OnTask | None:
    """The observer of tasks that are numbered after ``count`` earlier tasks; None if ``on_task`` is None."""
    return None if on_task is None else lambda number: on_task(count + number)


def is_small(sizes: NDArray[np.int64], target_file_size: int | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which files are smaller than half of the target size. Compaction merges them, and table health counts them.

    Larger files are not merged. Two larger files together would exceed the target. If each new small file were merged
    into a larger file, all rows of the larger file would be rewritten every time.

    Args:
        sizes: bytes of each file.
        target_file_size: bytes; one value for all files, or one for each.
    """
    return sizes < target_file_size / 2


class Piece(NamedTuple):
    """Rows that ``scatter`` sends to a group of ``gather``.

    Attributes:
        group: index into the exchange's ``groups``.
        order: ``gather`` receives pieces by ascending order, then by sending task. For Z-order it is the number of the
            block in the written file.
        rows: at most some tens of MB.
    """

    group: int
    order: int
    rows: pa.Table


@dataclass(frozen=True)
class WriteTarget:
    """The table that rows are written to, in its state after the commit.

    Attributes:
        store: the table's store; picklable, because tasks contain it.
        layout: the layout of the table's files. The rows to write have the columns of its schema, and those of its
            ``row_ids`` if it has row ids.
        configuration: the table's properties (``delta.*``).
        target_file_size: a file is closed at about this number of bytes; None: ``delta.targetFileSize``, by default
            100 MiB.
        data_change: ``dataChange`` of the files; False if rows are only rearranged.
        rules: the rules for each row, checked in this order; empty if rows of the table are only moved.
        writer_properties: how the Parquet files are written; None: by the table's properties and defaults.
        computed: the columns that are computed if rows lack them.
        is_change_data: the files are change files, in the folder ``_change_data``.
    """

    store: ObjectStore
    layout: TableLayout
    configuration: Mapping[str, str] = field(default_factory=dict)
    target_file_size: int | None = None
    data_change: bool = True
    rules: tuple[RowRule, ...] = ()
    writer_properties: WriterProperties | None = None
    computed: ComputedColumns = field(default_factory=ComputedColumns)
    is_change_data: bool = False


class Engine(Protocol):
    """The interface of ``ArrowEngine`` (this process) and ``SparkEngine`` (a cluster).

    Functions for ``run`` and ``exchange`` are module-level functions of this library, and tasks are frozen, picklable
    dataclasses. A field may be a ``pa.Table``; use ``take`` and not ``slice``, because a pickled slice contains its
    whole parent. If a task fails, the call raises the error of this task, a ``DeltaError``. ``run`` and ``exchange`` do
    not delete the files that other tasks have written; no version refers to them.
    """

    @property
    def name(self) -> str:
        """``"arrow"`` or ``"spark"``."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time. A plan should have a multiple of this number of tasks."""

    def for_bytes(self, count: int) -> Engine:
        """The engine for tasks that read this number of bytes of data files.

        Arrow: itself. Spark: for few bytes the Arrow engine in the driver, because Spark takes longer to start tasks.
        """

    def run(
        self,
        function: Callable[[T], pa.Table],
        tasks: Sequence[T],
        on_task: OnTask | None = None,
        sizes: Sequence[int] | None = None,
    ) -> pa.Table:
        """The concatenated results of the function, in the order of the tasks.

        All results of a function have one schema, usually ``FILE_SCHEMA``, possibly with additional columns. Without
        tasks, the result is an empty files table.

        Args:
            on_task: called when a task has ended; never called on Spark Connect.
            sizes: the work of each task, in bytes to read. The Spark engine puts several small tasks into one
                Spark task, because a Spark task takes time to start. None: each task is a Spark task.
        """

    def share(self, value: Any) -> AbstractContextManager[Shared]:
        """A reference to a picklable value that several tasks need; valid until the block ends."""

    def exchange(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
        on_task: OnTask | None = None,
    ) -> pa.Table:
        """Run ``scatter`` on each task and send its pieces to groups; then run ``gather`` on each group.

        ``gather(groups[i], pieces of group i)`` runs once for each group with a piece. It gets an iterator of the
        pieces, by ascending ``(order, sending task, position)``. The result is the concatenation of the results of
        ``gather``, in the order of the groups.

        Args:
            on_task: as in ``run``; the tasks of groups have the numbers after those of ``tasks``.
        """

    def write(self, data: Any, target: WriteTarget) -> pa.Table:
        """Write rows as new data files with unique names; returns the files table, with statistics.

        Raises:
            InvalidArgumentError: the engine cannot read the data, or the table cannot store a partition value.
            InvalidPredicateError: the engine cannot compute a column that the data lacks.
            SchemaMismatchError: a value does not fit its column.
            ConstraintViolatedError: rows violate a rule of the target.
        """

    def match(self, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
        """The positions of the rows for which the predicate is true in ``files``, a files table of the snapshot.

        Returns:
            A table of MATCHES_SCHEMA (``parquet/matching.py``). The positions include rows that deletion vectors hide.
        """

    def update(
        self, snapshot: Snapshot, files: pa.Table, matches: pa.Table, values: Mapping[str, Value], target: WriteTarget
    ) -> pa.Table:
        """Write the matching live rows with new values as new data files; returns the files table.

        If it fails, it deletes the files that it has written.

        Args:
            files: a files table of the snapshot.
            matches: a table of MATCHES_SCHEMA with the same files in the same order.
            values: the new values by column.
            target: the table; its layout has ``row_ids`` if rows keep their row ids.

        Raises:
            InvalidPredicateError: the engine cannot evaluate a value.
            SchemaMismatchError: a value is out of the range of its column.
            ConstraintViolatedError: rows violate a rule of the target.
        """

    def compute(self, rows: pa.Table, alias: str, columns: Mapping[str, str]) -> pa.Table | None:
        """Columns that Spark computes from rows of this process; None: the engine has no Spark.

        Args:
            rows: the rows, such as the source of a merge.
            alias: the name of the rows in the SQL.
            columns: the SQL expression of each new column, in Spark's dialect, by the column's name.

        Raises:
            InvalidPredicateError: Spark refuses an expression.
        """

    def read(self, snapshot: Snapshot, columns: Sequence[str] | None, predicate: Predicate | None) -> Any:
        """The rows for which the predicate is true. Arrow: a ``pa.RecordBatchReader``; Spark: a ``DataFrame``."""


def check_engine(engine: object, *, table: str) -> None:
    """Refuse an ``engine`` argument that is not an engine, such as a name or a class.

    Raises:
        InvalidArgumentError: the argument is neither an engine nor None.
    """
    if engine is not None and (isinstance(engine, type) or not hasattr(engine, "exchange")):
        raise InvalidArgumentError(
            f"engine is {excerpt(engine)}; expected an engine",
            table=table,
            hint="Give SparkEngine(spark), ArrowEngine() or None",
        )
