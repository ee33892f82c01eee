"""The new places of rows that concurrent commits deleted during a Z-order.

The place of a row after the exchange (``shuffle``) depends only on the keys and the order of the rows. So a run does
not record places. After a conflict, the key columns of the same files are sent through an exchange again, each row with
the number of its file and its position. The keys arrive in the order in which the rows were written. They are compared
with the keys of the written file, row by row, so that a wrong place is detected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import binaries, flags_of, int64s, numbers_of
from lakehouse_lib.engine.base import Engine, Piece
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.operations.optimize.deletion_vector_rebase import RebasedGroup
from lakehouse_lib.operations.optimize.z_order.shuffle import (
    FilePart,
    Load,
    ScatterTask,
    pieces_of,
    row_groups,
    rows_in_order,
)
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.store import ObjectStore

#: The old places of rows: the file's number in the group in the high bits, the position in the file in the low bits.
_Rows = NDArray[np.int64]
_FILE = 40  # the number of low bits, which contain the position

#: The places of at most this many rows stay in memory (16 bytes per row). If a group with places in memory has another
#: conflict, its keys are not sent through the exchange again.
_REMEMBERED_ROWS = 1 << 24

_ANSWER_SCHEMA = pa.schema([("file", pa.int64()), ("rows", pa.int64()), ("numbers", pa.binary())])


@dataclass(frozen=True)
class KeyTask:
    """A task of ``scatter_keys``, which moves only the keys.

    Attributes:
        reader: reads the key columns.
        loads: loads of a task that sent the rows for the written files.
        numbers: log path of each file of the loads -> the file's number in its group.
    """

    reader: TableReader
    loads: tuple[Load, ...]
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class WrittenFile:
    """A group of ``gather_keys``: a written file, and the rows whose positions are needed.

    Attributes:
        number: the file's number among all files of the operation.
        reader: reads the key columns.
        path: the file's path in the log; None for a file without rows.
        rows: the old places of the rows whose positions are needed; None: return the old place of each row of the file.
    """

    number: int
    reader: TableReader
    path: str | None
    rows: _Rows | None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.reader.schema.fields)


class DeletedRowSearch:
    """The ``Places`` of a Z-order (``optimize.deletion_vector_rebase``), found by a second exchange of the keys.

    Args:
        reader: reads the columns of the Z-order, in their order.
        tasks: the tasks of ``shuffle.scatter`` that sent the rows.
        paths: log paths of the written files by their numbers; None for a file without rows.
    """

    def __init__(
        self, engine: Engine, reader: TableReader, tasks: Sequence[ScatterTask], paths: Sequence[str | None]
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._tasks = tasks
        self._paths = paths
        self._remembered: dict[int, _Written] = {}

    def __call__(self, store: ObjectStore, groups: Mapping[int, RebasedGroup]) -> dict[int, list[BitMap64]]:
        marked = {number: rows for number, group in groups.items() if (rows := _marked(store, group)) is not None}
        new = {number: groups[number] for number in marked if number not in self._remembered}
        by_group = self._look_for(new, marked) if new else {}
        for number, written in self._remembered.items():
            if number in marked:
                by_group[number] = written.places(marked[number])
        return {number: places for number, places in by_group.items() if places is not None}

    def _look_for(
        self, groups: Mapping[int, RebasedGroup], marked: Mapping[int, _Rows]
    ) -> dict[int, list[BitMap64] | None]:
        """Send the keys of groups through an exchange again, and find the places of the marked rows.

        Groups whose places fit in memory are put into ``_remembered`` and not into the result.
        """
        members = {
            path: (number, place)
            for number, group in groups.items()
            for place, path in enumerate(group.copied["path"].to_pylist())
        }
        tasks: list[KeyTask] = []
        group_of: dict[int, int] = {}
        for task in self._tasks:
            loads = tuple(load for load in task.loads if load.sources[0].path in members)
            if loads:
                paths = {source.path for load in loads for source in load.sources}
                tasks.append(KeyTask(self._reader, loads, {path: members[path][1] for path in paths}))
            for load in loads:
                first = load.layout.first_file
                files = range(first, first + load.layout.file_count)
                group_of.update(dict.fromkeys(files, members[load.sources[0].path][0]))
        counts = {number: live_records(group.added).to_pylist() for number, group in groups.items()}
        remembered = self._to_remember({number: sum(rows) for number, rows in counts.items()})
        written_files = []
        for file, path in enumerate(self._paths):
            group = group_of.get(file)
            if group is None:  # a file of another group has a number too, but gets no row
                written_files.append(WrittenFile(file, self._reader, None, None))
            else:
                written_files.append(
                    WrittenFile(file, self._reader, path, None if group in remembered else marked[group])
                )
        answers = self._engine.exchange(scatter_keys, gather_keys, tasks, written_files).to_pylist()
        by_group: dict[int, list[BitMap64] | None] = {}
        for number in groups:
            group_answers = [answer for answer in answers if group_of[answer["file"]] == number]
            numbers = [np.frombuffer(answer["numbers"], np.int64) for answer in group_answers]
            # A group is left out if its row counts differ from the written files, or if its keys differ.
            if [answer["rows"] for answer in group_answers] != counts[number]:
                continue
            if number in remembered:
                self._remembered[number] = _Written.of(numbers)
            elif sum(map(len, numbers)) == len(marked[number]):
                by_group[number] = [deletion_vector.bitmap_of(rows) for rows in numbers]
        return by_group

    def _to_remember(self, rows: Mapping[int, int]) -> set[int]:
        room = _REMEMBERED_ROWS - sum(len(written.rows) for written in self._remembered.values())
        chosen = set()
        for number, count in rows.items():
            if count <= room:
                chosen.add(number)
                room -= count
        return chosen


@dataclass(frozen=True)
class _Written:
    """The places of all rows of a group, file after file.

    Attributes:
        rows: the old places, ascending.
        order: the new place of each of these rows among all written rows.
        edges: the first new place of each file, and the end of the last file.
    """

    rows: _Rows
    order: _Rows
    edges: _Rows

    @classmethod
    def of(cls, files: Sequence[_Rows]) -> _Written:
        """The places of a group's rows.

        Args:
            files: the old places of the rows of each written file.
        """
        rows = np.concatenate([np.zeros(0, np.int64), *files])
        order = np.argsort(rows)
        return cls(rows[order], order, np.cumsum([0, *map(len, files)]))

    def places(self, marked: _Rows) -> list[BitMap64] | None:
        """The new positions of rows in each file; None if a row was not written."""
        at = np.searchsorted(self.rows, marked)
        if len(marked) and (at[-1] >= len(self.rows) or (self.rows[at] != marked).any()):
            return None
        places = np.sort(self.order[at])
        cuts = np.searchsorted(places, self.edges)
        return [
            deletion_vector.bitmap_of(places[low:high] - start)
            for low, high, start in zip(cuts[:-1], cuts[1:], self.edges[:-1], strict=True)
        ]


def scatter_keys(task: KeyTask) -> Iterator[Piece]:
    """``shuffle.scatter`` of the keys, with the old place of each row in the last column."""
    return pieces_of(task.loads, partial(_keys_and_numbers, task))


def gather_keys(file: WrittenFile, pieces: Iterator[Piece]) -> pa.Table:
    """Return one row: the file's number, its row count, and int64s as bytes.

    The int64s are the old places of all rows, or the positions of ``file.rows``. If the keys differ from the keys of
    the written file, the count is 0.
    """
    parts: list[_Rows] = [np.zeros(0, np.int64)]
    written = None if file.path is None else _keys_of(file.reader, file.path)
    count = 0
    for rows in rows_in_order(pieces, file.columns):
        if written is None or not _are_same(rows.select(file.columns), written.slice(count, len(rows))):
            parts, count = [np.zeros(0, np.int64)], 0
            break
        numbers = numbers_of(rows.column(rows.num_columns - 1).combine_chunks(), np.int64)
        parts.append(numbers if file.rows is None else count + np.flatnonzero(np.isin(numbers, file.rows)))
        count += len(rows)
    payload = np.concatenate(parts).tobytes()
    return pa.table([int64s([file.number]), int64s([count]), binaries([payload])], schema=_ANSWER_SCHEMA)


def _keys_of(reader: TableReader, path: str) -> pa.Table:
    with reader.open(path, None) as file:
        groups = [reader.row_group(file, index, {}) for index in range(file.num_row_groups)]
    return pa.concat_tables(groups)


def _are_same(rows: pa.Table, others: pa.Table) -> bool:
    """Whether rows are equal bit by bit: NaN equals NaN, and -0.0 differs from 0.0."""
    return all(_bits(column).equals(_bits(other)) for column, other in zip(rows.columns, others.columns, strict=True))


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    whole = pa.int64() if column.type.bit_width == 64 else pa.int32()
    return pa.chunked_array([chunk.view(whole) for chunk in column.chunks], whole)


def _keys_and_numbers(task: KeyTask, source: FilePart) -> Iterator[pa.Table]:
    name = "row " + "".join(field.name for field in task.reader.schema.fields)  # longer than each name
    for file, index in row_groups(task.reader, source):
        keys = task.reader.row_group(file, index, {})
        live = file.live_mask(index)
        places = np.arange(len(keys)) if live is None else np.flatnonzero(flags_of(live))
        first = (task.numbers[source.path] << _FILE) + file.starts[index]
        yield keys.append_column(name, int64s(first + places))


def _marked(store: ObjectStore, group: RebasedGroup) -> _Rows | None:
    """The old places of a group's newly deleted rows, ascending; None if a deleted row was restored."""
    parts: list[_Rows] = [np.zeros(0, np.int64)]
    for number, (old_vector, new_vector) in enumerate(group.vectors):
        if old_vector != new_vector:
            old, latest = deletion_vector.load(store, old_vector), deletion_vector.load(store, new_vector)
            if not old <= latest:
                return None
            parts.append((number << _FILE) + deletion_vector.positions(latest - old))
    return np.concatenate(parts)
