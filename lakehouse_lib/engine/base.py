"""The interface of engines, which read and write data files.

An operation plans tasks (plain values), hands them to an engine together with a function of this library, and commits
the files table that comes back. Nothing an engine writes is visible before that commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Predicate
    from lakehouse_lib.schema import RowRule, TableLayout
    from lakehouse_lib.snapshot import Snapshot
    from lakehouse_lib.store import ObjectStore

T = TypeVar("T")
G = TypeVar("G")


def is_small(sizes: NDArray[np.int64], target_file_size: int | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which files compaction merges and health counts as small: those below half of the target.

    A file of half the target or more stays: with another of its kind it would pass the target, and merging ever new
    small files into it would rewrite all of its rows each time.

    Args:
        sizes: bytes of each file.
        target_file_size: bytes, of all files or of each.
    """
    return sizes < target_file_size / 2


class Piece(NamedTuple):
    """What the first wave of an exchange sends to the second.

    Attributes:
        group: index into the exchange's ``groups``.
        order: pieces reach ``gather`` by ascending order (a leaf, a file of the group); ties by sending task.
        data: any bytes, usually one Arrow IPC stream; at most some tens of MB.
    """

    group: int
    order: int
    data: bytes | pa.Buffer


@dataclass(frozen=True)
class WriteTarget:
    """Where rows go: the table as the commit will leave it.

    Attributes:
        store: the table's store; picklable, so it travels with the tasks.
        layout: of the table's files; data has exactly the columns of its schema when it gets here, and copied rows
            those of its ``row_ids``.
        configuration: the table's properties (``delta.*``).
        target_file_size: a file is closed at about this many bytes; None: ``delta.targetFileSize``, else 100 MiB.
        data_change: what the files' ``dataChange`` says; False when rows are only rearranged.
        rules: what each row has to satisfy, in this order; none where rows of the table are only moved.
    """

    store: ObjectStore
    layout: TableLayout
    configuration: Mapping[str, str] = field(default_factory=dict)
    target_file_size: int | None = None
    data_change: bool = True
    rules: tuple[RowRule, ...] = ()


class Engine(Protocol):
    """One small interface, two engines: ``ArrowEngine`` (this process) and ``SparkEngine`` (a cluster).

    Functions given to ``run`` and ``exchange`` are module-level functions of this library and tasks are frozen,
    picklable dataclasses (a ``pa.Table`` field is fine; ``take`` rather than ``slice`` it, slices carry their parent).
    A task that fails makes the call raise that task's own error, a ``DeltaError`` with its message; what other tasks
    wrote stays unreferenced.
    """

    @property
    def name(self) -> str:
        """``"arrow"`` or ``"spark"``."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at the same time; plan some multiple of it."""

    def run(self, function: Callable[[T], pa.Table], tasks: Sequence[T]) -> pa.Table:
        """The concatenated results, in the order of the tasks.

        All results of a function have one schema, usually ``FILE_SCHEMA``, perhaps with columns of its own beside it.
        Without tasks the result is an empty files table.
        """

    def exchange(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
    ) -> pa.Table:
        """Two waves with pieces between them.

        Wave 1 runs ``scatter(task)``; wave 2 runs ``gather(groups[i], pieces of group i)`` once for each group that got
        a piece, its pieces streamed by ascending ``(order, sending task, position)``. ``data`` is a buffer there.
        The result is the concatenation of what ``gather`` returns, by group.
        """

    def write(self, data: Any, target: WriteTarget) -> pa.Table:
        """Write rows as new data files under names of their own; the files table, with statistics.

        Raises:
            SchemaMismatchError: a value does not fit its column.
            ConstraintViolatedError: rows violate a rule of the target.
        """

    def match(self, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
        """The rows of ``files`` (of the snapshot, a files table) for which the predicate is true.

        Returns:
            MATCHES_SCHEMA of ``parquet/matching.py``: positions in files, rows that deletion vectors hide among them.
        """

    def read(self, snapshot: Snapshot, columns: Sequence[str] | None, predicate: Predicate | None) -> Any:
        """The rows for which the predicate is true. Arrow: a ``pa.RecordBatchReader``; Spark: a ``DataFrame``."""


def check_engine(engine: object, *, table: str) -> None:
    """Check the ``engine`` argument: with a name or a class instead of an engine, reads would go another way unseen.

    Raises:
        InvalidArgumentError: neither an engine nor None.
    """
    if engine is not None and (isinstance(engine, type) or not hasattr(engine, "exchange")):
        raise InvalidArgumentError(
            f"the engine is {excerpt(engine)}", table=table, hint="Give SparkEngine(spark), ArrowEngine() or None"
        )
