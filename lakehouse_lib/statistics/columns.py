"""The columns that have statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakehouse_lib.protocol.table_properties import NUM_INDEXED_COLUMNS, STATS_COLUMNS
from lakehouse_lib.schema import DataType, StructType, TableLayout

#: The names on the path to a column: ("a",) or, inside structs, ("a", "b").
ColumnPath = tuple[str, ...]


@dataclass(frozen=True)
class StatisticsColumns:
    """The leaf columns that have statistics; an array or map counts as one leaf, but has no statistics."""

    paths: frozenset[ColumnPath]

    def __contains__(self, path: object) -> bool:
        return path in self.paths


def leaves(schema: StructType, above: ColumnPath = ()) -> Iterator[tuple[ColumnPath, DataType]]:
    """The path and the type of each leaf column, in order. A struct is not a leaf; an array or map is one leaf."""
    for field in schema.fields:
        path = (*above, field.name)
        if isinstance(field.type, StructType):
            yield from leaves(field.type, path)
        else:
            yield path, field.type


def indexed_columns(layout: TableLayout, configuration: Mapping[str, str]) -> StatisticsColumns:
    """The leaf columns that have statistics by the table's properties; never partition columns.

    ``delta.dataSkippingStatsColumns`` names the columns (a struct means all of its leaves; unknown names are ignored).
    Without this property, the first ``delta.dataSkippingNumIndexedCols`` leaves have statistics; default: 32, -1: all.

    Raises:
        InvalidArgumentError: one of the properties is not valid.
    """
    paths = [path for path, _ in leaves(layout.schema) if not layout.is_partition_column(path[0])]
    named = STATS_COLUMNS.of(configuration)
    if named is not None:
        prefixes = [tuple(part.lower() for part in column) for column in named]
        chosen = [path for path in paths if any(_starts_with(path, prefix) for prefix in prefixes)]
        return StatisticsColumns(frozenset(chosen))
    count = NUM_INDEXED_COLUMNS.of(configuration)
    return StatisticsColumns(frozenset(paths if count == -1 else paths[:count]))


def _starts_with(path: ColumnPath, prefix: ColumnPath) -> bool:
    return tuple(part.lower() for part in path[: len(prefix)]) == prefix
