"""Rows of a files table, made from plain values.

Built from buffers: the first ``pa.array(list)`` of a process imports pandas, which costs a cold Spark worker a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse_lib.actions import FILE_SCHEMA


@dataclass(frozen=True)
class FileRow:
    """A data file that was written: ``path`` as in the log, ``size`` in bytes, ``modified`` in ms since the epoch."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modified: int
    stats: str | None


def files_table(rows: Sequence[FileRow], *, data_change: bool) -> pa.Table:
    """The files table of these files."""
    count = len(rows)
    known = {
        "path": strings([row.path for row in rows]),
        "partitionValues": _maps([row.partition_values for row in rows]),
        "size": int64s([row.size for row in rows]),
        "modificationTime": int64s([row.modified for row in rows]),
        "dataChange": _bools([data_change] * count),
        "stats": strings([row.stats for row in rows]),
    }
    columns = [known.get(one.name) for one in FILE_SCHEMA]
    return pa.Table.from_arrays(
        [
            pa.nulls(count, one.type) if column is None else column
            for one, column in zip(FILE_SCHEMA, columns, strict=True)
        ],
        schema=FILE_SCHEMA,
    )


def strings(values: Sequence[str | None]) -> pa.Array:
    """A string column."""
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    valid = None
    if any(value is None for value in values):
        valid = _bitmap([value is not None for value in values])
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def int64s(values: Sequence[int]) -> pa.Array:
    """An int64 column without nulls."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.array(values, dtype=np.int64))])


def _bools(values: Sequence[bool]) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bitmap(values)])


def _maps(values: Sequence[Mapping[str, str | None]]) -> pa.Array:
    offsets = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    keys = strings([key for value in values for key in value])
    items = strings([item for value in values for item in value.values()])
    offset_array = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
    return pa.MapArray.from_arrays(offset_array, keys, items)


def _bitmap(values: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(values, dtype=bool), bitorder="little"))
