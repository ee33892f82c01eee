"""Statistics as they are in the log, for users: not widened or validated, in the types of the columns.

Missing statistics, and statistics of another type, are null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.schema import DataType, PrimitiveType, StructType
from lakehouse_lib.statistics.columns import ColumnPath
from lakehouse_lib.statistics.json_form import from_text, json_rows, json_type

_ENDS = ("minValues", "maxValues")


@dataclass(frozen=True)
class WrittenStatistics:
    """A selection of statistics, and the readers of their two forms.

    Attributes:
        counts: the columns whose null counts are read, by physical names; each leaf is a long.
        ends: the columns whose min and max are read, by physical names and with their types.
    """

    counts: StructType
    ends: StructType

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the result: ``numRecords``, and the structs ``nullCount``, ``minValues`` and ``maxValues``."""
        return self._schema(lambda kind: kind.to_arrow())

    @cached_property
    def leaves(self) -> list[ColumnPath]:
        """The paths of the selected statistics, such as ``("minValues", "a", "b")``."""
        return [
            ("numRecords",),
            *(("nullCount", *path) for path in _paths(self.counts)),
            *((end, *path) for end in _ENDS for path in _paths(self.ends)),
        ]

    def from_json(self, stats: pa.ChunkedArray) -> pa.Table:
        """The statistics from the JSON form."""
        as_read = self._schema(json_type)
        tables = [pa.Table.from_batches([], self.schema)]
        for rows in json_rows(stats, as_read):
            ends = [_typed(rows[end].combine_chunks(), self.ends) for end in _ENDS]
            tables.append(pa.Table.from_arrays([rows["numRecords"], rows["nullCount"], *ends], schema=self.schema))
        return pa.concat_tables(tables)

    def from_structs(self, structs: pa.ChunkedArray) -> pa.Table | None:
        """The statistics from the struct form; None if one of ``leaves`` is missing or has another type."""
        chunks = [
            [_fitted(_member(chunk, field.name), field.type) for field in self.schema] for chunk in structs.chunks
        ]
        if any(column is None for columns in chunks for column in columns):
            return None
        return pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(columns, schema=self.schema) for columns in chunks], self.schema
        )

    def without_counts(self, written: pa.Table) -> NDArray[np.bool_]:
        """A mask of the files without a row count, or without a null count of a column of ``counts``.

        Args:
            written: statistics of files (``schema``).
        """
        is_missing = flags_of(written["numRecords"].is_null())
        for path in _paths(self.counts):
            is_missing = is_missing | flags_of(pc.is_null(pc.struct_field(written["nullCount"], list(path))))
        return is_missing

    def _schema(self, leaf: Callable[[PrimitiveType], pa.DataType]) -> pa.Schema:
        ends = _arrow(self.ends, leaf)
        return pa.schema(
            [
                pa.field("numRecords", pa.int64()),
                pa.field("nullCount", _arrow(self.counts, leaf)),
                *(pa.field(end, ends) for end in _ENDS),
            ]
        )


def _paths(kind: StructType) -> list[ColumnPath]:
    paths: list[ColumnPath] = []
    for field in kind.fields:
        below = _paths(field.type) if isinstance(field.type, StructType) else [()]
        paths += [(field.name, *path) for path in below]
    return paths


def _arrow(kind: DataType, leaf: Callable[[PrimitiveType], pa.DataType]) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, _arrow(field.type, leaf)) for field in kind.fields])
    assert isinstance(kind, PrimitiveType)
    return leaf(kind)


def _typed(parsed: pa.Array, kind: DataType) -> pa.Array:
    """Parsed JSON values, converted to the types of the columns."""
    if isinstance(kind, StructType):
        members = [_typed(pc.struct_field(parsed, [index]), field.type) for index, field in enumerate(kind.fields)]
        return _struct(members, [field.name for field in kind.fields], parsed)
    assert isinstance(kind, PrimitiveType)
    return parsed if parsed.type == kind.to_arrow() else from_text(parsed, kind)


def _fitted(stored: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    """Stored values as ``kind``; None if the conversion may change a value."""
    if stored is None or stored.type == kind:
        return stored
    if pa.types.is_struct(kind) and pa.types.is_struct(stored.type):
        members = [_fitted(_member(stored, field.name), field.type) for field in kind]
        if any(member is None for member in members):
            return None
        return _struct(members, [field.name for field in kind], stored)
    if pa.types.is_string(kind) and (pa.types.is_large_string(stored.type) or pa.types.is_string_view(stored.type)):
        return stored.cast(kind)
    return None


def _member(structs: pa.Array, name: str) -> pa.Array | None:
    index = structs.type.get_field_index(name) if pa.types.is_struct(structs.type) else -1
    return pc.struct_field(structs, [index]) if index >= 0 else None


def _struct(members: list[pa.Array], names: list[str], like: pa.Array) -> pa.Array:
    """A struct array that is null where ``like`` is null."""
    if not members:
        return pa.nulls(len(like), pa.struct([]))
    return pa.StructArray.from_arrays(members, names, mask=pc.is_null(like))
