"""The engine that runs in threads of this process; pyarrow releases the GIL while it reads and writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from lakehouse_lib.arrow.streams import rows_of, stream_of
from lakehouse_lib.engine.base import OnTask, Piece, WriteTarget, after
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.engine.parquet.matching import match_files
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.engine.parquet.task_results import is_failure
from lakehouse_lib.engine.parquet.updating import run_update_tasks, update_tasks
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.engine.scratch_folders import scratch_folder
from lakehouse_lib.engine.shared import InTask, Shared
from lakehouse_lib.errors import InvalidArgumentError, StoreError
from lakehouse_lib.expressions import Predicate, Value
from lakehouse_lib.expressions.evaluate_arrow import check_renderable
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.threads import map_in_threads, processors

T = TypeVar("T")
G = TypeVar("G")
R = TypeVar("R")

_PIECES_IN_MEMORY = 512 << 20
_BATCH_ROWS = 1 << 16


class ArrowEngine:
    """The engine that runs tasks in this process.

    Args:
        parallelism: the number of threads; default: the number of cores that this process may use.

    Raises:
        InvalidArgumentError: ``parallelism`` is not a positive whole number.
    """

    name = "arrow"

    def __init__(self, parallelism: int | None = None) -> None:
        if parallelism is not None and (type(parallelism) is not int or parallelism < 1):
            raise InvalidArgumentError(
                f"parallelism is {parallelism!r}; expected a whole number of at least 1",
                hint="Give the number of threads",
            )
        self.parallelism = parallelism or processors()

    def __repr__(self) -> str:
        return f"ArrowEngine(parallelism={self.parallelism})"

    def for_bytes(self, count: int) -> ArrowEngine:  # noqa: ARG002 - it reads any number of bytes
        return self

    def run(
        self,
        function: Callable[[T], pa.Table],
        tasks: Sequence[T],
        on_task: OnTask | None = None,
        sizes: Sequence[int] | None = None,  # noqa: ARG002 - a thread starts in no time
    ) -> pa.Table:
        if not tasks:
            return pa.Table.from_batches([], FILE_SCHEMA)
        return pa.concat_tables(_tables(function, tasks, self.parallelism, on_task))

    def share(self, value: Any) -> AbstractContextManager[Shared]:
        return nullcontext(InTask(value))

    def exchange(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
        on_task: OnTask | None = None,
    ) -> pa.Table:
        with scratch_folder() as folder:
            pieces = _Pieces(Path(folder), len(groups))
            numbers = range(len(tasks))
            for _ in _results(
                lambda number: pieces.collect(number, scatter(tasks[number])), numbers, self.parallelism, on_task
            ):
                pass
            filled_groups = [number for number in range(len(groups)) if pieces.has(number)]
            results = list(
                _tables(
                    lambda number: gather(groups[number], pieces.drain(number)),
                    filled_groups,
                    self.parallelism,
                    after(len(tasks), on_task),
                )
            )
        return pa.concat_tables(results) if results else pa.Table.from_batches([], FILE_SCHEMA)

    def write(self, data: Any, target: WriteTarget) -> pa.Table:
        rows = incoming(data)
        if rows.is_spark:
            raise InvalidArgumentError(
                "the Arrow engine cannot write a Spark DataFrame",
                table=target.store.root,
                hint="Write it with SparkEngine(dataframe.sparkSession), or pass dataframe.toArrow()",
                code="DELTA_UNSUPPORTED_DATA",
            )
        return write_rows(rows.rows, rows.schema.names, target)

    def match(self, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
        return match_files(self, snapshot, files, predicate)

    def update(
        self,
        snapshot: Snapshot,  # noqa: ARG002 - only Spark's own scan needs it
        files: pa.Table,
        matches: pa.Table,
        values: Mapping[str, Value],
        target: WriteTarget,
    ) -> pa.Table:
        for value in values.values():
            check_renderable(value)
        return run_update_tasks(self, update_tasks(target, files, matches, values, self.parallelism), target)

    def compute(self, rows: pa.Table, alias: str, columns: Mapping[str, str]) -> pa.Table | None:  # noqa: ARG002
        return None

    def read(
        self,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        scan = Scan.of(snapshot, columns, predicate, row_ids=row_ids)
        loads = scan.loads(snapshot.prune(predicate))
        # The rows keep the order of the files. At most ``parallelism`` row groups are decoded ahead, to bound memory.
        batches = map_in_threads(
            lambda load: load().to_batches(_BATCH_ROWS), loads, self.parallelism, ahead=self.parallelism
        )
        return pa.RecordBatchReader.from_batches(scan.result_schema, chain.from_iterable(batches))


def _tables(
    function: Callable[[T], pa.Table], items: Sequence[T], threads: int, on_task: OnTask | None
) -> Iterator[pa.Table]:
    """The tables of tasks in the order of the items. If a table is the error of its task, no other task starts."""
    failed = threading.Event()

    def table_of(item: T) -> pa.Table | None:
        if failed.is_set():
            return None
        table = function(item)
        if is_failure(table):
            failed.set()
        return table

    return (table for table in _results(table_of, items, threads, on_task) if table is not None)


def _results(function: Callable[[T], R], items: Sequence[T], threads: int, on_task: OnTask | None) -> Iterator[R]:
    """The results of a function in threads, in the order of the items; ``on_task`` gets the index of each item."""
    if on_task is None:
        return map_in_threads(function, items, threads)

    def observed(place: int) -> R:
        result = function(items[place])
        on_task(place)
        return result

    return map_in_threads(observed, range(len(items)), threads)


@dataclass(frozen=True)
class _PieceOnDisk:
    file: Path
    offset: int
    size: int

    def load(self) -> pa.Buffer:
        with pa.OSFile(str(self.file), "rb") as source:
            source.seek(self.offset)
            return source.read_buffer(self.size)


class _Pieces:
    """The pieces that scatter has sent. Pieces that exceed 512 MiB in memory are stored in scratch files."""

    def __init__(self, folder: Path, groups: int) -> None:
        self._folder = folder
        self._groups: list[list[tuple[int, int, int, pa.Buffer | _PieceOnDisk]]] = [[] for _ in range(groups)]
        self._lock = threading.Lock()
        self._in_memory = 0

    def collect(self, task: int, pieces: Iterator[Piece]) -> None:
        scratch = self._folder / f"{task}.pieces"
        written = 0
        for position, piece in enumerate(pieces):
            stream = stream_of(piece.rows)
            size = stream.size
            with self._lock:
                fits = self._in_memory + size <= _PIECES_IN_MEMORY
                self._in_memory += size if fits else 0
            data: pa.Buffer | _PieceOnDisk = stream
            if not fits:
                try:
                    with scratch.open("ab") as out:
                        out.write(stream)
                except OSError as error:  # a full disk
                    raise StoreError(
                        f"the scratch file {scratch} cannot be written: {error}",
                        hint="Set TMPDIR to a folder on a disk with room for all rows of the work",
                    ) from error
                data = _PieceOnDisk(scratch, written, size)
                written += size
            self._groups[piece.group].append((piece.order, task, position, data))

    def has(self, group: int) -> bool:
        return bool(self._groups[group])

    def drain(self, group: int) -> Iterator[Piece]:
        """The group's pieces in order; each is released after the caller has taken it."""
        pieces, self._groups[group] = self._groups[group], []
        pieces.sort(key=lambda piece: piece[:3], reverse=True)
        while pieces:
            order, _, _, data = pieces.pop()
            yield Piece(group, order, rows_of(data.load() if isinstance(data, _PieceOnDisk) else data))
