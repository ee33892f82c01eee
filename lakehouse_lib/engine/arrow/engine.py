"""The engine of this process: threads, for pyarrow releases the GIL while it reads and writes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from lakehouse_lib.engine.base import Piece, WriteTarget
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.engine.parquet.writer import write_stream
from lakehouse_lib.engine.scratch_folders import scratch_folder
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import align_batches
from lakehouse_lib.snapshot import Snapshot

T = TypeVar("T")
G = TypeVar("G")

_PIECES_IN_MEMORY = 512 << 20
_BATCH_ROWS = 1 << 16


class ArrowEngine:
    """Runs everything here.

    Args:
        parallelism: threads; default: the cores this process may use.
    """

    name = "arrow"

    def __init__(self, parallelism: int | None = None) -> None:
        if parallelism is not None and (type(parallelism) is not int or parallelism < 1):
            raise InvalidArgumentError(f"parallelism {parallelism!r}", hint="Use one thread or more")
        self.parallelism = parallelism or len(os.sched_getaffinity(0))

    def __repr__(self) -> str:
        return f"ArrowEngine(parallelism={self.parallelism})"

    def run(self, function: Callable[[T], pa.Table], tasks: Sequence[T]) -> pa.Table:
        if not tasks:
            return FILE_SCHEMA.empty_table()
        if len(tasks) == 1:
            return function(tasks[0])
        with ThreadPoolExecutor(self.parallelism, "lakehouse-task") as pool:
            return pa.concat_tables(_results(pool, [pool.submit(function, task) for task in tasks]))

    def exchange(
        self,
        scatter: Callable[[T], Iterator[Piece]],
        gather: Callable[[G, Iterator[Piece]], pa.Table],
        tasks: Sequence[T],
        groups: Sequence[G],
    ) -> pa.Table:
        with (
            scratch_folder() as folder,
            ThreadPoolExecutor(self.parallelism, "lakehouse-task") as pool,
        ):
            kept = _Pieces(Path(folder), len(groups))
            _results(pool, [pool.submit(kept.collect, number, scatter(task)) for number, task in enumerate(tasks)])
            futures = [
                pool.submit(gather, group, kept.drain(number))
                for number, group in enumerate(groups)
                if kept.has(number)
            ]
            results = _results(pool, futures)
        return pa.concat_tables(results) if results else FILE_SCHEMA.empty_table()

    def write(self, data: Any, target: WriteTarget) -> pa.Table:
        rows = incoming(data)
        if rows.is_spark:
            raise InvalidArgumentError(
                "the Arrow engine cannot write a Spark DataFrame",
                table=target.store.root,
                hint="Write it with SparkEngine(dataframe.sparkSession), or pass dataframe.toArrow()",
                code="DELTA_UNSUPPORTED_DATA",
            )
        return write_stream(align_batches(rows.rows, target.schema, table=target.store.root), target)

    def read(
        self,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        scan = Scan.of(snapshot, columns, predicate, row_ids=row_ids)
        return pa.RecordBatchReader.from_batches(scan.result_schema, self._batches(scan, snapshot.prune(predicate)))

    def _batches(self, scan: Scan, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """Row groups in the files' order, decoded ahead by as many threads as there are, so memory is bounded."""
        ahead: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(self.parallelism, "lakehouse-read") as pool:
            try:
                for load in scan.loads(files):
                    ahead.append(pool.submit(load))
                    if len(ahead) > self.parallelism:
                        yield from ahead.popleft().result().to_batches(_BATCH_ROWS)
                while ahead:
                    yield from ahead.popleft().result().to_batches(_BATCH_ROWS)
            finally:
                for future in ahead:
                    future.cancel()


def _results(pool: ThreadPoolExecutor, futures: Sequence[Future[Any]]) -> list[Any]:
    try:
        return [future.result() for future in futures]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


@dataclass(frozen=True)
class _OnDisk:
    file: Path
    offset: int
    size: int

    def load(self) -> pa.Buffer:
        with pa.OSFile(str(self.file), "rb") as source:
            source.seek(self.offset)
            return source.read_buffer(self.size)


class _Pieces:
    """What wave 1 sent: in memory up to a bound, the rest in scratch files."""

    def __init__(self, folder: Path, groups: int) -> None:
        self._folder = folder
        self._groups: list[list[tuple[int, int, int, bytes | pa.Buffer | _OnDisk]]] = [[] for _ in range(groups)]
        self._lock = threading.Lock()
        self._in_memory = 0

    def collect(self, task: int, pieces: Iterator[Piece]) -> None:
        scratch = self._folder / f"{task}.pieces"
        written = 0
        for position, piece in enumerate(pieces):
            size = len(piece.data) if isinstance(piece.data, bytes) else piece.data.size
            with self._lock:
                fits = self._in_memory + size <= _PIECES_IN_MEMORY
                self._in_memory += size if fits else 0
            data: bytes | pa.Buffer | _OnDisk = piece.data
            if not fits:
                with scratch.open("ab") as out:
                    out.write(piece.data)
                data = _OnDisk(scratch, written, size)
                written += size
            self._groups[piece.group].append((piece.order, task, position, data))

    def has(self, group: int) -> bool:
        return bool(self._groups[group])

    def drain(self, group: int) -> Iterator[Piece]:
        """The group's pieces in order; each is let go once it is taken."""
        pieces, self._groups[group] = self._groups[group], []
        pieces.sort(key=lambda piece: piece[:3], reverse=True)
        while pieces:
            order, _, _, data = pieces.pop()
            if isinstance(data, _OnDisk):
                yield Piece(group, order, data.load())
            else:
                yield Piece(group, order, data if isinstance(data, pa.Buffer) else pa.py_buffer(data))
