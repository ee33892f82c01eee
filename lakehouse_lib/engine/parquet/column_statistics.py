"""Statistics of columns from the rows of a data file, for columns without statistics in its footer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.errors import LogCorruptedError, UnsupportedFeatureError
from lakehouse_lib.schema import Field, PrimitiveType, Schema, StructType, TableLayout
from lakehouse_lib.statistics import ColumnPath, ColumnRange, leaves, of_values, stats_text
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class ColumnStatistics:
    """Computes statistics of columns from their values. Reads one column of one row group at a time.

    Attributes:
        layout: of the table.
    """

    store: ObjectStore
    layout: TableLayout

    def of(self, path: str, columns: Collection[ColumnPath]) -> str:
        """The ``stats`` of these columns in the data file at a log path, as JSON. Deleted rows count, as in a footer.

        A column that does not fit the table, or that this library cannot read, has no statistics.

        Args:
            columns: leaf columns of primitive types, by physical names.

        Raises:
            ObjectNotFoundError: the file does not exist.
            StoreError: it is not a Parquet file, or is damaged.
        """
        ranges: dict[ColumnPath, tuple[PrimitiveType, ColumnRange]] = {}
        with self._reader().open(path, None) as file:
            for field in self.layout.schema.fields:
                members = {
                    logical: (physical, kind)
                    for logical, kind in leaves(StructType([field]))
                    if (physical := self.layout.physical_path(logical)) in columns and isinstance(kind, PrimitiveType)
                }
                try:
                    ranges |= self._ranges(file, field, members) if members else {}
                except (LogCorruptedError, UnsupportedFeatureError):
                    continue
            return stats_text(file.metadata.num_rows, ranges)

    def _ranges(
        self, file: DataFile, field: Field, members: dict[ColumnPath, tuple[ColumnPath, PrimitiveType]]
    ) -> dict[ColumnPath, tuple[PrimitiveType, ColumnRange]]:
        ranges = {physical: (kind, ColumnRange()) for physical, kind in members.values()}
        reader = self._reader(field)
        for group in range(file.num_row_groups):
            rows = reader.row_group(file, group, {}, include_deleted=True)
            for logical, (physical, kind) in members.items():
                ranges[physical] = (kind, ranges[physical][1].union(of_values(kind, _member(rows, logical))))
        return ranges

    def _reader(self, *fields: Field) -> TableReader:
        return TableReader(self.store, self.layout, Schema(list(fields)))


def _member(rows: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    """The values of a leaf column; null where a struct around it is null."""
    column = rows[path[0]]
    for name in path[1:]:
        index = column.type.get_field_index(name)
        chunks = [chunk.flatten()[index] for chunk in column.chunks]
        column = pa.chunked_array(chunks, column.type.field(index).type)
    return column
