"""The files of settled batches, loaded or refused, with size, modification time and digest.

They are rows of Arrow tables, and never Python objects, because a source may have millions. Files of older batches are
in *segments*: Parquet objects that are sorted by name. A lookup reads only the row groups that may have the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.arrow.sorted_search import count_below
from lakehouse_lib.arrow.values import as_array, bools, flags_of, strings
from lakehouse_lib.errors import IngestError, ObjectNotFoundError
from lakehouse_lib.store import ObjectStore

#: A row for each file. ``refused``: the reason why the file was refused; null: it was loaded in ``batch``.
#: ``definition``: the source's definition by which the file was refused; null for a loaded file, and in old segments.
SETTLED = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("refused", pa.string()),
        pa.field("definition", pa.string()),
    ]
)
NONE_SETTLED = pa.Table.from_batches([], SETTLED)  # empty_table() would import pandas
_GROUP_ROWS = 1 << 16
_ANY = ("", chr(0x10FFFF))


@dataclass(frozen=True)
class Segment:
    """A Parquet object of settled files, sorted by name; no name is in it twice.

    Attributes:
        path: below the table's root.
        rows: the number of files.
    """

    path: str
    rows: int

    def to_json(self) -> dict[str, object]:
        return {"path": self.path, "rows": self.rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Segment:
        return cls(str(value["path"]), int(value["rows"]))


class SettledFiles:
    """The settled files of a source. Segments are opened when they are needed, and closed at the end of a block.

    Args:
        store: the table's store.
        segments: from the oldest batches to the newest.
        recent: the files of the batches after those of the segments, as ``SETTLED``; no name is in it twice.
    """

    def __init__(self, store: ObjectStore, segments: Sequence[Segment], recent: pa.Table) -> None:
        self.recent = recent
        self._newest_first = [_OpenSegment(store, segment) for segment in reversed(segments)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for segment in self._newest_first:
            segment.close()

    def lookup(self, names: Any) -> pa.Table:
        """A row of ``SETTLED`` for each of these names, null if the file is not settled.

        If several batches had the name, it is the row of the newest batch. Reading is fastest if the names are sorted,
        in each call and from call to call.
        """
        nullable = pa.schema([field.with_nullable(True) for field in SETTLED])
        if not len(names):
            return pa.Table.from_batches([], nullable)
        first, last = pc.min(names).as_py(), pc.max(names).as_py()
        candidates = [self.recent, *(segment.between(first, last) for segment in self._newest_first)]
        # The first row of a name is that of the newest batch.
        rows = pa.concat_tables([table for table in candidates if table.num_rows] or [self.recent]).combine_chunks()
        places = pc.index_in(names, rows["name"].combine_chunks())
        return rows.take(places).cast(nullable)


class _OpenSegment:
    """A segment whose row groups are read once, if its names are looked up in order."""

    def __init__(self, store: ObjectStore, segment: Segment) -> None:
        self._store, self._segment = store, segment
        self._file: pq.ParquetFile | None = None
        self._bounds: list[tuple[str, str]] = []
        self._groups: dict[int, pa.Table] = {}

    def between(self, first: str, last: str) -> pa.Table:
        """The rows whose names are from ``first`` to ``last``."""
        if self._file is None:
            self._file = _opened(self._store, self._segment)
            metadata = self._file.metadata
            names = [metadata.row_group(number).column(0).statistics for number in range(metadata.num_row_groups)]
            self._bounds = [_ANY if name is None or not name.has_min_max else (name.min, name.max) for name in names]
        needed = [number for number, (low, high) in enumerate(self._bounds) if low <= last and first <= high]
        self._groups = {
            number: self._groups[number]
            if number in self._groups
            else _with_definition(self._file.read_row_group(number)).combine_chunks()
            for number in needed
        }
        return pa.concat_tables([NONE_SETTLED, *(_between(group, first, last) for group in self._groups.values())])

    def close(self) -> None:
        """Close the object, if it is open."""
        if self._file is not None:
            self._file.close(force=True)  # with the stream that ``_opened`` has opened


def _between(rows: pa.Table, first: str, last: str) -> pa.Table:
    """The rows whose names are from ``first`` to ``last``; ``rows`` is sorted by name."""
    names = as_array(rows["name"])
    start = int(count_below(names, strings([first]))[0])
    return rows.slice(start, int(count_below(names, strings([last]), or_equal=True)[0]) - start)


def read_segment(store: ObjectStore, segment: Segment) -> pa.Table:
    """All rows of a segment."""
    file = _opened(store, segment)
    try:
        return _with_definition(file.read())
    finally:
        file.close(force=True)


def _with_definition(rows: pa.Table) -> pa.Table:
    """Rows of a segment as ``SETTLED``; old segments have no definitions."""
    name = "definition"
    if name not in rows.column_names:
        rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows.cast(SETTLED)


def segment_bytes(rows: pa.Table) -> bytes:
    """A segment of these rows, which are sorted by name."""
    sink = pa.BufferOutputStream()
    dictionaries = ["refused", "definition"]
    options: dict[str, Any] = {"row_group_size": _GROUP_ROWS, "compression": "zstd", "use_dictionary": dictionaries}
    pq.write_table(rows, sink, **options)
    return bytes(sink.getvalue().to_pybytes())


def newest(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of tables of ``SETTLED`` sorted by name, with only the row of the newest batch for each name."""
    rows = pa.concat_tables([NONE_SETTLED, *tables])
    rows = rows.take(pc.sort_indices(rows, [("name", "ascending"), ("batch", "ascending")])).combine_chunks()
    if rows.num_rows < 2:
        return rows
    names = as_array(rows["name"])
    return rows.filter(bools(np.append(flags_of(pc.not_equal(names[:-1], names[1:])), True)))


def _opened(store: ObjectStore, segment: Segment) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(store.open_input(segment.path), pre_buffer=False)
    except ObjectNotFoundError as error:
        raise IngestError(
            f"{segment.path} is missing; it lists {segment.rows} settled files",
            table=store.root,
            hint="Restore it from a backup; without it the load does not know which files are in the table. If another "
            "run of the source was active, run the load again",
        ) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise IngestError(
            f"{segment.path} is not a valid segment of settled files: {str(error).partition(chr(10))[0]}",
            table=store.root,
            hint="Restore it from a backup; without it the load does not know which files are in the table",
        ) from error
