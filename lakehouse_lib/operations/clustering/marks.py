"""Where rows have gone that others marked as deleted while they were being clustered.

The rows' way through the two waves follows from their keys and their order alone. So it need not be written down while
nothing conflicts: the key columns of the same files, as they were read then, take the same way once more, each row with
a bit that says whether it has been marked since, and come out in the order in which the rows were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib import deletion_vectors
from lakehouse_lib.arrow_values import binaries, bools, flags_of, int64s
from lakehouse_lib.engine.base import Engine, Piece
from lakehouse_lib.engine.data_reader import TableReader
from lakehouse_lib.operations.carried_marks import MarkedGroup, bitmap, vector
from lakehouse_lib.operations.clustering.waves import FilePart, Load, ScatterTask, collected, row_groups, sent
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.store import ObjectStore

_FOUND = pa.schema([("file", pa.int64()), ("rows", pa.int64()), ("marks", pa.binary())])


@dataclass(frozen=True)
class MarkTask:
    """Wave 1 once more, with the keys alone.

    Attributes:
        reader: reads the key columns.
        loads: of a task of the first time.
        vectors: the deletion vectors of files as they are now, by the files' paths in the log; no other file has any
            row marked since.
    """

    reader: TableReader
    loads: tuple[Load, ...]
    vectors: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class MarkedFile:
    """A group of wave 2: the number of a written file, and the columns that it is ordered by."""

    number: int
    columns: tuple[str, ...]


def places_of_keys(
    engine: Engine,
    reader: TableReader,
    tasks: Sequence[ScatterTask],
    files: int,
    store: ObjectStore,
    groups: Mapping[int, MarkedGroup],
) -> dict[int, list[BitMap64]]:
    """``carried_marks.Places`` of a clustering.

    Args:
        reader: reads the columns clustered by, in their order.
        tasks: those that ``waves.scatter`` has done.
        files: into how many files, at most.
    """
    changed = {number: now for number, group in groups.items() if (now := _changed(store, group)) is not None}
    vectors = {path: one for now in changed.values() for path, one in now.items()}
    group_of = {path: number for number in changed for path in groups[number].copied["path"].to_pylist()}
    again: list[MarkTask] = []
    numbers: dict[int, set[int]] = {number: set() for number in changed}
    for task in tasks:
        loads = tuple(load for load in task.loads if load.sources[0].path in group_of)
        if loads:
            paths = {source.path for load in loads for source in load.sources}
            own = {path: one for path, one in vectors.items() if path in paths}
            again.append(MarkTask(reader, loads, own))
        for load in loads:
            first = load.layout.first_file
            numbers[group_of[load.sources[0].path]].update(range(first, first + sum(load.layout.tree["files"])))
    columns = tuple(field.name for field in reader.schema.fields)
    found = engine.exchange(
        scatter_marks, gather_marks, again, [MarkedFile(number, columns) for number in range(files)]
    ).to_pylist()
    places: dict[int, list[BitMap64]] = {}
    for number, own_files in numbers.items():
        ours = [one for one in found if one["file"] in own_files]
        # The first time they were counted by who wrote them: what differs from that is another table than was read.
        if [one["rows"] for one in ours] == live_records(groups[number].added).to_pylist():
            places[number] = [BitMap64.deserialize(one["marks"]) for one in ours]
    return places


def scatter_marks(task: MarkTask) -> Iterator[Piece]:
    """``waves.scatter`` of the keys, and a last column that says which rows have been marked."""
    return sent(task.loads, partial(_keys_and_marks, task))


def gather_marks(file: MarkedFile, pieces: Iterator[Piece]) -> pa.Table:
    """The file's number, how many rows it has, and the positions of those that have been marked."""
    marks = BitMap64()
    count = 0
    for rows in collected(pieces, file.columns):
        marks |= bitmap(count + np.flatnonzero(flags_of(rows.column(rows.num_columns - 1))))
        count += len(rows)
    return pa.table([int64s([file.number]), int64s([count]), binaries([marks.serialize()])], schema=_FOUND)


def _keys_and_marks(task: MarkTask, source: FilePart) -> Iterator[pa.Table]:
    deleted = vector(task.reader.store, task.vectors.get(source.path))
    name = "marked " + "".join(field.name for field in task.reader.schema.fields)  # longer than any of theirs
    for file, index in row_groups(task.reader, source):
        keys = task.reader.row_group(file, index, {})
        kept = file.kept(index)
        there = deletion_vectors.kept_rows(deleted, file.starts[index], file.metadata.row_group(index).num_rows)
        marked = ~flags_of(there if kept is None else there.filter(kept))
        yield keys.append_column(name, bools(marked))


def _changed(store: ObjectStore, group: MarkedGroup) -> dict[str, Mapping[str, Any]] | None:
    """The vectors of now of the group's files that have others; None when rows of one have come back."""
    changed: dict[str, Mapping[str, Any]] = {}
    for path, (was, now) in zip(group.copied["path"].to_pylist(), group.vectors, strict=True):
        if was != now:
            if now is None or not vector(store, was) <= vector(store, now):
                return None
            changed[path] = now
    return changed
