"""The positions of rows in data files for which a predicate is true, and the rows at such positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import binaries, bools, flags_of, int64s, numbers_of, strings
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.protocol.deletion_vector import bitmap_of
from lakehouse_lib.protocol.deletion_vector import positions as positions_in
from lakehouse_lib.snapshot import Snapshot

_TASK_BYTES = 128 << 20
#: The cost of opening a file, as the number of bytes that are read in the same time. The rows of a row group, for most
#: writers.
_OPEN_BYTES, _ROW_GROUP = 1 << 20, 1 << 20
#: Files are put into one task up to this number of bytes, as long as there is a task for each processor. The reason is
#: that the start of each task takes time on Spark.
_LEAST_TASK_BYTES = 32 << 20

#: One row for each file with matching rows: its log path, its number of rows, and the positions of the matching rows as
#: a serialized Roaring bitmap. The number and the positions include rows that a deletion vector hides.
MATCHES_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("positions", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True)
class MatchTask:
    """A task that finds matching rows in ``files`` (path and partitionValues of a files table).

    Attributes:
        reader: reads the columns of the predicate.
    """

    reader: TableReader
    files: pa.Table
    predicate: Predicate


def match_files(engine: Engine, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
    """``Engine.match`` for a predicate that Arrow evaluates."""
    engine = engine.for_bytes(bytes_to_match(snapshot, files, predicate))
    tasks = match_tasks(snapshot, files, predicate, engine.parallelism)
    return engine.run(match_rows, tasks) if tasks else pa.Table.from_batches([], MATCHES_SCHEMA)


def bytes_to_match(snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> int:
    """The bytes that a match reads, estimated as if all columns had the same size."""
    share = len(predicate.columns) / len(snapshot.schema.fields)
    sizes = numbers_of(files["size"], np.int64)
    return int(np.maximum(sizes * share, np.minimum(sizes, _OPEN_BYTES)).sum())


def bytes_of_matches(files: pa.Table, matches: pa.Table) -> int:
    """The bytes of the row groups with matching rows, estimated as if no two matches were in the same row group.

    Args:
        files: a files table.
        matches: a table of MATCHES_SCHEMA with the same files in the same order.
    """
    counts = np.array([len(positions) for positions in positions_of(matches)], np.int64)
    shares = np.minimum(counts * _ROW_GROUP / np.maximum(numbers_of(matches["rows"], np.int64), 1), 1)
    return int((numbers_of(files["size"], np.int64) * shares).sum())


def match_tasks(snapshot: Snapshot, files: pa.Table, predicate: Predicate, parallelism: int) -> list[MatchTask]:
    """Match tasks for files of a snapshot, in shares of about equal size, the largest files first."""
    layout = snapshot.layout
    reader = TableReader(snapshot.store, layout, layout.columns(sorted(predicate.columns)))
    read = files.select(["path", "partitionValues"])
    return [
        MatchTask(reader, read.take(int64s(rows)), predicate)
        for rows in shares(numbers_of(files["size"], np.int64), parallelism, least=_LEAST_TASK_BYTES)
    ]


def match_rows(task: MatchTask) -> pa.Table:
    """Run a match task. Returns MATCHES_SCHEMA. Row groups that cannot match by their statistics are not read."""
    reader, predicate = task.reader, task.predicate
    constants = reader.constants(task.files)
    sources, counts, positions = [], [], []
    for index, path in enumerate(task.files["path"].to_pylist()):
        values = {name: column[index] for name, column in constants.items()}
        with reader.open(path, None) as file:
            places = []
            for group in reader.candidates(file, predicate):
                matching = reader.mask(reader.row_group(file, group, values), predicate)
                if matching.true_count:
                    places.append(file.starts[group] + np.flatnonzero(flags_of(matching)))
            if places:
                sources.append(path)
                counts.append(file.metadata.num_rows)
                positions.append(bitmap_of(np.concatenate(places)).serialize())
    return matches_table(sources, counts, positions)


def rows_at(reader: TableReader, files: pa.Table, positions: Sequence[bytes | None]) -> Iterator[pa.Table]:
    """The live rows of files at some positions, one row group at a time.

    Args:
        files: COPIED_COLUMNS of the files.
        positions: the positions in each file, as in MATCHES_SCHEMA; None: all positions of the file.
    """
    for (file, constants), bitmap in zip(reader.files(files), positions, strict=True):
        chosen = BitMap64() if bitmap is None else BitMap64.deserialize(bitmap)
        if bitmap is None:
            chosen.add_range(0, file.metadata.num_rows)
        places = positions_in(chosen - (file.deleted or BitMap64()))
        ends = [*file.starts[1:], file.metadata.num_rows]
        for group, (start, end) in enumerate(zip(file.starts, ends, strict=True)):
            group_places = places[slice(*np.searchsorted(places, (start, end)))]
            if len(group_places):
                is_at = np.zeros(end - start, np.bool_)
                is_at[group_places - start] = True
                yield reader.row_group(file, group, constants, mask=bools(is_at))


def matches_table(sources: Sequence[str], rows: Sequence[int], positions: Sequence[bytes]) -> pa.Table:
    """A table of MATCHES_SCHEMA from its columns."""
    columns = [strings(sources), int64s(rows), binaries(positions)]
    return pa.Table.from_arrays(columns, schema=MATCHES_SCHEMA)


def positions_of(matches: pa.Table) -> list[BitMap64]:
    """The bitmap of positions of each row of matches."""
    return [BitMap64.deserialize(data) for data in matches["positions"].to_pylist()]


def shares(sizes: np.ndarray[Any, Any], parallelism: int, *, least: int = 0) -> Iterator[Sequence[int]]:
    """The files of each task, as row numbers of ``sizes``, the largest files first.

    Tasks have about equal sizes. A task has at most 128 MiB, unless ``least`` or a single file is larger.

    Args:
        sizes: the bytes of each file.
        least: tasks may have this number of bytes, as long as there is a task for each processor.
    """
    if not len(sizes):
        return
    total = int(sizes.sum())
    limit = max(min(_TASK_BYTES, total // (4 * parallelism) + 1), min(least, total // parallelism + 1))
    group: list[int] = []
    weight = 0
    for row in np.argsort(-sizes, kind="stable").tolist():
        if group and weight + int(sizes[row]) > limit:
            yield group
            group, weight = [], 0
        group.append(row)
        weight += int(sizes[row])
    yield group
