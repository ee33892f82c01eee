"""The live files as a table to look at: what the log says of each, statistics included, as it says it.

Unlike the bounds that prune files (``statistics.bounds``) nothing is widened here and nothing judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.partition_values import partition_column, to_typed
from lakehouse_lib.schema import DataType, Field, PrimitiveType, StructType, column_mapping
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import StatisticsColumns, indexed_columns

_ROWS_A_PARSE = 65_536
_AS_TEXT = ("string", "date", "timestamp", "timestamp_ntz")
_WITHOUT_ENDS = ("binary", "void", "variant")
_ALWAYS = ("path", "size_bytes", "modification_time")


def add_actions(snapshot: Snapshot, *, flatten: bool = False) -> pa.Table:
    """One row a live file: path (as in the log), size_bytes, modification_time (ms since the epoch), num_records, and
    null_count, min and max of the columns that have statistics, and the partition's values.

    Values have the columns' types; what a file's statistics do not say, or say otherwise, is null. Arrays, maps and
    binaries have no min and max.

    Args:
        flatten: a column ``min.x`` (``min.a.b`` for a nested one) instead of a member of the struct ``min``.
    """
    files, schema, mode = snapshot.files, snapshot.schema, snapshot.column_mapping
    indexed = indexed_columns(schema, snapshot.configuration, snapshot.partition_columns)
    counted, ended = _counted(schema, indexed, ()), _ended(schema, indexed, ())
    parsed = _parse(files["stats"], counted, ended, mode)
    columns: dict[str, pa.Array] = {
        "path": files["path"],
        "size_bytes": files["size"],
        "modification_time": files["modificationTime"],
        "num_records": parsed["numRecords"],
        "null_count": _logical(parsed["nullCount"], counted, mode),
        "min": _logical(parsed["minValues"], ended, mode),
        "max": _logical(parsed["maxValues"], ended, mode),
        "partition": _partitions(snapshot, files),
    }
    fields, values = [], []
    for name, column in columns.items():
        for one, array in _flat(name, column) if flatten else [(name, column)]:
            if not pa.types.is_struct(array.type) or array.type.num_fields:
                fields.append(
                    pa.field(one, array.type, nullable=one not in ("path", "size_bytes", "modification_time"))
                )
                values.append(array)
    return pa.Table.from_arrays(values, schema=pa.schema(fields))


def _counted(schema: StructType, indexed: StatisticsColumns, above: tuple[str, ...]) -> StructType:
    """The columns with statistics, each leaf a count."""
    return _chosen(schema, indexed, above, lambda _: PrimitiveType("long"))


def _ended(schema: StructType, indexed: StatisticsColumns, above: tuple[str, ...]) -> StructType:
    """The columns with statistics that have a least and a greatest value."""

    def ends(kind: DataType) -> DataType | None:
        return kind if isinstance(kind, PrimitiveType) and kind.is_known and kind.type not in _WITHOUT_ENDS else None

    return _chosen(schema, indexed, above, ends)


def _chosen(
    schema: StructType,
    indexed: StatisticsColumns,
    above: tuple[str, ...],
    leaf: Callable[[DataType], DataType | None],
) -> StructType:
    fields = []
    for one in schema.fields:
        path = (*above, one.name)
        kind: DataType | None
        if isinstance(one.type, StructType):
            kind = _chosen(one.type, indexed, path, leaf)
            kind = kind if kind.fields else None
        else:
            kind = leaf(one.type) if path in indexed else None
        if kind is not None:
            fields.append(Field(one.name, kind, metadata=one.metadata))
    return StructType(fields)


def _parse(stats: pa.ChunkedArray, counted: StructType, ended: StructType, mode: column_mapping.Mode) -> pa.Table:
    """The statistics' JSON in columns; what is no JSON, or of other types, is null."""
    schema = pa.schema(
        [
            pa.field("numRecords", pa.int64()),
            pa.field("nullCount", _json_type(counted, mode)),
            pa.field("minValues", _json_type(ended, mode)),
            pa.field("maxValues", _json_type(ended, mode)),
        ]
    )
    empty = pa.Table.from_batches([], schema)
    return pa.concat_tables([empty, *(_read(block, schema) for block in _blocks(stats))]).combine_chunks()


def _blocks(stats: pa.ChunkedArray) -> Iterator[list[str | None]]:
    for chunk in stats.chunks:
        for start in range(0, len(chunk), _ROWS_A_PARSE):
            yield chunk.slice(start, _ROWS_A_PARSE).to_pylist()


def _json_type(kind: DataType, mode: column_mapping.Mode) -> pa.DataType:
    if isinstance(kind, StructType):
        names = [(column_mapping.physical_name(one, mode), one.type) for one in kind.fields]
        return pa.struct([pa.field(name, _json_type(inner, mode)) for name, inner in names])
    return pa.string() if isinstance(kind, PrimitiveType) and kind.type in _AS_TEXT else kind.to_arrow()


def _read(texts: list[str | None], schema: pa.Schema) -> pa.Table:
    lines = [" ".join((text or "{}").splitlines()) or "{}" for text in texts]
    block = max(1 << 20, 2 * max(map(len, lines), default=0) * 4)
    try:
        found = pj.read_json(
            pa.BufferReader("\n".join(lines).encode()),
            read_options=pj.ReadOptions(block_size=block),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        if found.num_rows == len(lines):
            return found
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        pass  # a row that Arrow cannot read: one by one, then
    return pa.Table.from_pylist([_row(line, schema) for line in lines], schema=schema)


def _row(line: str, schema: pa.Schema) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError):
        value = None
    return {one.name: _fit(value.get(one.name) if isinstance(value, dict) else None, one.type) for one in schema}


def _fit(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {one.name: _fit(value.get(one.name), one.type) for one in kind} if isinstance(value, dict) else None
    if isinstance(value, bool) is not pa.types.is_boolean(kind) or isinstance(value, str) is not pa.types.is_string(
        kind
    ):
        return None
    try:
        return pa.scalar(float(value) if pa.types.is_floating(kind) else value, kind).as_py()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _logical(values: pa.ChunkedArray | pa.Array, kind: StructType, mode: column_mapping.Mode) -> pa.Array:
    """Parsed values under the columns' own names and in their types."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    members = []
    for index, one in enumerate(kind.fields):
        member = pc.struct_field(array, [index])
        if isinstance(one.type, StructType):
            members.append(_logical(member, one.type, mode))
        elif isinstance(one.type, PrimitiveType) and one.type.type in _AS_TEXT and one.type.type != "string":
            members.append(_from_text(member, one.type))
        else:
            members.append(member)
    if not members:
        return pa.nulls(len(array), pa.struct([]))
    fields = [pa.field(one.name, member.type) for one, member in zip(kind.fields, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=pc.is_null(array))


def _from_text(text: pa.Array, kind: PrimitiveType) -> pa.Array:
    try:
        return to_typed(text, kind)
    except LogCorruptedError:
        if len(text) < 2:
            return pa.nulls(len(text), kind.to_arrow())
        half = len(text) // 2
        return pa.concat_arrays([_from_text(text.slice(0, half), kind), _from_text(text.slice(half), kind)])


def _partitions(snapshot: Snapshot, files: pa.Table) -> pa.Array:
    schema, mode = snapshot.schema, snapshot.column_mapping
    values: Mapping[str, pa.Array] = {
        name: partition_column(files, column_mapping.partition_key(schema, name, mode), schema.field(name).type)
        for name in snapshot.partition_columns
    }
    if not values:
        return pa.nulls(len(files), pa.struct([]))
    return pa.StructArray.from_arrays(list(values.values()), list(values))


def _flat(name: str, column: pa.ChunkedArray | pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for index, one in enumerate(column.type):
        yield from _flat(f"{name}.{one.name}", pc.struct_field(column, [index]))
