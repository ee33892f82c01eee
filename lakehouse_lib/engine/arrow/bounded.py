"""The Arrow engine for small work: it refuses tasks that would read more than a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import numbers_of
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import OnTask, Piece, WriteTarget
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.expressions import Predicate, Value
from lakehouse_lib.snapshot import Snapshot

T = TypeVar("T")
G = TypeVar("G")


class WorkTooLargeError(DeltaError):
    """The work reads more bytes than the engine may read. The call has read and committed nothing."""


class BoundedEngine(ArrowEngine):
    """An Arrow engine that reads at most ``max_bytes`` of data files in each call.

    A call adds up the sizes of its files before it reads them. Most verbs pass all files of the work to their first
    call.

    Args:
        snapshot: the version whose files the tasks read.
        max_bytes: the limit, compared with the sizes of data files in the log.
        bytes_before: bytes that the caller reads itself.

    Raises:
        WorkTooLargeError: ``bytes_before`` is more than ``max_bytes``.
    """

    def __init__(self, snapshot: Snapshot, max_bytes: int, bytes_before: int = 0) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._max_bytes = max_bytes
        self._bytes_before = bytes_before
        self._check(0)

    def run(
        self,
        function: Callable[[T], pa.Table],
        tasks: Sequence[T],
        on_task: OnTask | None = None,
        sizes: Sequence[int] | None = None,
    ) -> pa.Table:
        self._check(self._bytes_of(tasks))
        return super().run(function, tasks, on_task, sizes)

    def exchange(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
        on_task: OnTask | None = None,
    ) -> pa.Table:
        self._check(self._bytes_of(tasks))
        return super().exchange(scatter, gather, tasks, groups, on_task)

    def match(self, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
        self._check(_bytes(files))
        return super().match(snapshot, files, predicate)

    def update(
        self, snapshot: Snapshot, files: pa.Table, matches: pa.Table, values: Mapping[str, Value], target: WriteTarget
    ) -> pa.Table:
        self._check(_bytes(files))
        return super().update(snapshot, files, matches, values, target)

    def read(
        self,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        self._check(_bytes(snapshot.prune(predicate, ["size"])))
        return super().read(snapshot, columns, predicate, row_ids=row_ids)

    def _bytes_of(self, tasks: Sequence[Any]) -> int:
        """The bytes of the files of tasks.

        Raises:
            TypeError: a task is of a class whose files are unknown here.
        """
        files: list[pa.Table] = []
        parts: list[str] = []
        for task in tasks:
            match task:
                case object(files=pa.Table() as table) | object(changed=pa.Table() as table):
                    files.append(table)
                case object(loads=tuple() as loads):
                    parts += [part.path for load in loads for part in load.sources]
                case object(paths=_):  # footers, or copies of whole objects, which ``bytes_before`` counts
                    continue
                case _:
                    raise TypeError(f"the task {type(task).__qualname__} has no files; expected a task with files")
        sized = [table for table in files if "size" in table.column_names]
        paths = [table["path"].combine_chunks() for table in files if "size" not in table.column_names]
        if not paths and not parts:
            return sum(map(_bytes, sized))
        live = self._snapshot.files
        chosen = pa.chunked_array([*paths, pa.array(parts, pa.string())])
        return sum(map(_bytes, sized)) + _bytes(live.filter(pc.is_in(live["path"], value_set=chosen)))

    def _check(self, read_bytes: int) -> None:
        read_bytes += self._bytes_before
        if read_bytes > self._max_bytes:
            raise WorkTooLargeError(f"the work reads {read_bytes} bytes; expected at most {self._max_bytes}")


def _bytes(files: pa.Table) -> int:
    return int(numbers_of(files["size"], np.int64).sum())
