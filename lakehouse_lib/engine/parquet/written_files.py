"""Written data files as rows of a files table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.arrow.values import bools, column, int64s, strings
from lakehouse_lib.protocol.actions import FILE_SCHEMA, STRING_MAP


@dataclass(frozen=True)
class NewFile:
    """A data file that was written: ``path`` as in the log, ``size`` in bytes, ``modified`` in ms since the epoch."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modified: int
    stats: str | None


def files_table(rows: Sequence[NewFile], *, data_change: bool) -> pa.Table:
    """The files table of these files."""
    count = len(rows)
    values_by_name = {
        "path": strings([row.path for row in rows]),
        "partitionValues": column([row.partition_values for row in rows], STRING_MAP),
        "size": int64s([row.size for row in rows]),
        "modificationTime": int64s([row.modified for row in rows]),
        "dataChange": bools([data_change] * count),
        "stats": strings([row.stats for row in rows]),
    }
    columns = [values_by_name.get(field.name) for field in FILE_SCHEMA]
    return pa.Table.from_arrays(
        [
            pa.nulls(count, field.type) if values is None else values
            for field, values in zip(FILE_SCHEMA, columns, strict=True)
        ],
        schema=FILE_SCHEMA,
    )
