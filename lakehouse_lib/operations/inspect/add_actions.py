"""The live files as a table with their statistics, as the log has them.

The bounds that prune files (``statistics.bounds``) are checked, and widened if they may be inexact. The values in this
table are neither checked nor widened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.protocol.partition_values import partition_column
from lakehouse_lib.schema import DataType, Field, PrimitiveType, StructType, column_mapping
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import StatisticsColumns, WrittenStatistics, indexed_columns

_WITHOUT_BOUNDS = ("binary", "void", "variant")
_NOT_NULL = ("path", "size_bytes", "modification_time")


def add_actions(snapshot: Snapshot, *, flatten: bool = False) -> pa.Table:
    """A table with one row for each live file.

    Columns: path (as in the log), size_bytes, modification_time (ms since the epoch), num_records, null_count, min and
    max of the columns with statistics, and partition. Values have the columns' types. A value that is missing from the
    statistics, or has another type, is null. Arrays, maps and binaries have no min and max.

    Args:
        flatten: return columns such as ``min.x`` (``min.a.b`` for a nested column) instead of a struct ``min``.
    """
    schema, mode = snapshot.schema, snapshot.layout.mapping
    indexed = indexed_columns(snapshot.layout, snapshot.configuration)
    counted, bounded = _counts_schema(schema, indexed, ()), _bounds_schema(schema, indexed, ())
    statistics, files = snapshot.statistics(
        WrittenStatistics(column_mapping.physical_schema(counted, mode), column_mapping.physical_schema(bounded, mode)),
        ["path", "size", "modificationTime", "partitionValues"],
    )
    columns: dict[str, pa.ChunkedArray] = {
        "path": files["path"],
        "size_bytes": files["size"],
        "modification_time": files["modificationTime"],
        "num_records": statistics["numRecords"],
        "null_count": _with_logical_names(statistics["nullCount"], counted),
        "min": _with_logical_names(statistics["minValues"], bounded),
        "max": _with_logical_names(statistics["maxValues"], bounded),
        "partition": _partitions(snapshot, files),
    }
    fields, values = [], []
    for name, column in columns.items():
        for leaf_name, array in _flat(name, column) if flatten else [(name, column)]:
            if not pa.types.is_struct(array.type) or array.type.num_fields:
                fields.append(pa.field(leaf_name, array.type, nullable=leaf_name not in _NOT_NULL))
                values.append(array)
    return pa.Table.from_arrays(values, schema=pa.schema(fields))


def _counts_schema(schema: StructType, indexed: StatisticsColumns, above: tuple[str, ...]) -> StructType:
    """The schema of ``null_count``: the columns with statistics, in which each leaf has the type long."""
    return _columns_with_statistics(schema, indexed, above, lambda _: PrimitiveType("long"))


def _bounds_schema(schema: StructType, indexed: StatisticsColumns, above: tuple[str, ...]) -> StructType:
    """The schema of ``min`` and ``max``: the columns with statistics whose types have bounds."""

    def bounded_type(kind: DataType) -> DataType | None:
        return kind if isinstance(kind, PrimitiveType) and kind.is_known and kind.type not in _WITHOUT_BOUNDS else None

    return _columns_with_statistics(schema, indexed, above, bounded_type)


def _columns_with_statistics(
    schema: StructType,
    indexed: StatisticsColumns,
    above: tuple[str, ...],
    leaf: Callable[[DataType], DataType | None],
) -> StructType:
    fields = []
    for field in schema.fields:
        path = (*above, field.name)
        kind: DataType | None
        if isinstance(field.type, StructType):
            kind = _columns_with_statistics(field.type, indexed, path, leaf)
            kind = kind if kind.fields else None
        else:
            kind = leaf(field.type) if path in indexed else None
        if kind is not None:
            fields.append(Field(field.name, kind, metadata=field.metadata))
    return StructType(fields)


def _with_logical_names(values: pa.ChunkedArray, kind: StructType) -> pa.ChunkedArray:
    """Statistics with logical names in place of physical names, at every depth."""
    arrow_type = _logical_type(kind, values.type)
    if arrow_type == values.type:
        return values
    return pa.chunked_array([_with_member_names(chunk, arrow_type) for chunk in values.chunks], arrow_type)


def _logical_type(kind: DataType, stored: pa.DataType) -> pa.DataType:
    if not isinstance(kind, StructType):
        return stored
    return pa.struct(
        [pa.field(field.name, _logical_type(field.type, stored[i].type)) for i, field in enumerate(kind.fields)]
    )


def _with_member_names(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return values
    members = [_with_member_names(pc.struct_field(values, [index]), field.type) for index, field in enumerate(kind)]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=pc.is_null(values))


def _partitions(snapshot: Snapshot, files: pa.Table) -> pa.ChunkedArray:
    layout = snapshot.layout
    values: Mapping[str, pa.Array] = {
        name: partition_column(files, layout.partition_key(name), layout.schema.field(name).type)
        for name in layout.partition_columns
    }
    if not values:
        return pa.chunked_array([pa.nulls(len(files), pa.struct([]))])
    return pa.chunked_array([pa.StructArray.from_arrays(list(values.values()), list(values))])


def _flat(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for index, field in enumerate(column.type):
        yield from _flat(f"{name}.{field.name}", pc.struct_field(column, [index]))
