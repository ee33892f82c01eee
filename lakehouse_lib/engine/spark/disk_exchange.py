"""An exchange by scratch files, for tasks that all run on one machine.

A scatter task writes its pieces to one file, and returns their positions in the file to the driver. The driver sends
the positions to the gather tasks, which map the files into memory. So a piece is copied once, and all pieces together
may be larger than the memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.streams import rows_of
from lakehouse_lib.arrow.values import column, int64s, numbers_of, strings
from lakehouse_lib.engine.base import Piece

#: The index of pieces: group, order, sending task, position in the task, and the range of bytes in a scratch file.
INDEX = pa.schema(
    [
        ("group", pa.int32()),
        ("order", pa.int64()),
        ("task", pa.int32()),
        ("position", pa.int32()),
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("size", pa.int64()),
    ]
)

#: An Arrow stream is written in many small parts: the metadata and each buffer of each column.
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class ScatterToDisk:
    """A scatter task, whose pieces are written to a file in ``folder``."""

    scatter: Callable[[Any], Iterator[Piece]]
    task: Any
    number: int
    folder: str


@dataclass(frozen=True)
class GatherFromDisk:
    """A gather task: one group, and its rows of the index in the order in which ``gather`` gets the pieces."""

    gather: Callable[[Any, Iterator[Piece]], pa.Table]
    group: Any
    pieces: pa.Table

    @property
    def size(self) -> int:
        """The bytes of the pieces in the scratch files."""
        return int(numbers_of(self.pieces["size"], np.int64).sum())


def scatter_to_disk(task: ScatterToDisk) -> pa.Table:
    """Run a scatter task; returns its rows of the index."""
    # The name is unique, because a previous attempt of the task may still be writing.
    path = Path(task.folder) / f"{task.number}-{uuid.uuid4().hex}.pieces"
    groups: list[int] = []
    orders: list[int] = []
    ends = [0]
    with pa.output_stream(str(path), buffer_size=_BUFFER_BYTES) as file:
        for piece in task.scatter(task.task):
            with pa.ipc.new_stream(file, piece.rows.schema) as stream:
                stream.write_table(piece.rows)
            groups.append(piece.group)
            orders.append(piece.order)
            ends.append(file.tell())
    count = len(groups)
    edges = np.array(ends, np.int64)
    return pa.table(
        [
            column(groups, pa.int32()),
            int64s(orders),
            column([task.number] * count, pa.int32()),
            column(range(count), pa.int32()),
            strings([str(path)] * count),
            int64s(edges[:-1]),
            int64s(np.diff(edges)),
        ],
        schema=INDEX,
    )


def by_group(
    index: pa.Table, gather: Callable[[Any, Iterator[Piece]], pa.Table], groups: Sequence[Any]
) -> list[GatherFromDisk]:
    """One gather task for each group that has a piece."""
    ordered = index.sort_by([(name, "ascending") for name in ("group", "order", "task", "position")])
    runs = pc.run_end_encode(ordered["group"].combine_chunks())
    tasks = []
    start = 0
    for end, group in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        # ``take`` and not ``slice``: a pickled slice contains the whole index.
        tasks.append(GatherFromDisk(gather, groups[group], ordered.take(int64s(range(start, end)))))
        start = end
    return tasks


def gather_from_disk(task: GatherFromDisk) -> pa.Table:
    """Run a gather task."""
    return task.gather(task.group, _mapped(task.pieces))


def _mapped(index: pa.Table) -> Iterator[Piece]:
    maps: dict[str, pa.Buffer] = {}
    for row in index.to_pylist():
        file = row["file"]
        if file not in maps:
            with pa.memory_map(file) as source:
                maps[file] = source.read_buffer() if source.size() else pa.py_buffer(b"")
        yield Piece(row["group"], row["order"], rows_of(maps[file].slice(row["offset"], row["size"])))
