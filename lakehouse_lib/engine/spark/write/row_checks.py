"""Checks of each row that Spark's own writer writes, for what the table does not allow and that writer would write.

Nulls in nested columns: of a null struct, list or map the footers say no more than of one whose members are null, and
of a null member no more than of one whose struct is null. Text or binaries that are not UTF-8 in a partition column:
Spark names the folder by the text that it makes of them, which is the same for all of them. Other columns are not
looked at for such text: that takes a fifth more of a write's processor time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, SchemaMismatchError
from lakehouse_lib.protocol import partition_values
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType
from lakehouse_lib.schema.enforcement import not_null_violated
from lakehouse_lib.schema.quoting import quoted

_NULL, _BINARY = "a null where none is allowed", "a binary that is not UTF-8"
_TEXT = "text that is not UTF-8"
_LONG = "a partition value that makes a folder name of more than"
_NUL = "a partition value with NUL"
_REFUSAL = re.compile(
    rf"lakehouse refuses (?P<what>{_NULL}|{_BINARY}|{_TEXT}|{_LONG} \d+ bytes|{_NUL}) in column <(?P<column>[^>]*)>"
)


def checked(frame: Any, target: WriteTarget) -> Any:
    """The frame, which fails when a row is written that ``target`` does not allow."""
    from pyspark.sql import functions as F

    columns = []
    for source in Schema.from_json(frame.schema.json()).fields:
        column, field = F.col(quoted(source.name)), target.layout.schema.get(source.name)
        for what, condition in [] if field is None else _faults(column, source, field, target):
            refused = F.raise_error(F.lit(f"lakehouse refuses {what} in column <{source.name}>"))
            column = F.when(condition, refused).otherwise(column)
        columns.append(column.alias(source.name))
    return frame.select(*columns)


def refusal(error: DeltaError, target: WriteTarget) -> DeltaError | None:
    """The error for a row that ``checked`` refused; None where the write failed for another reason."""
    match = _REFUSAL.search(str(error.__cause__))
    if match is None:
        return None
    column, table = target.layout.schema.field(match["column"]), target.store.root
    if match["what"] == _BINARY:
        return InvalidArgumentError(
            f"a binary partition value of column {column.name!r} is not UTF-8",
            table=table,
            hint="Partition by another column.",
            code="DELTA_INVALID_PARTITION_VALUE",
        )
    if match["what"] == _TEXT:
        return SchemaMismatchError(
            f"{column.name}: expected {column.type}, got {_TEXT}",
            table=table,
            hint="Decode text by the encoding that it was written in, or write it as binary.",
        )
    if match["what"].startswith((_LONG, _NUL)):
        return InvalidArgumentError(
            f"column {column.name}: the data has {match['what']}",
            table=table,
            hint=partition_values.LENGTH_HINT,
            code="DELTA_INVALID_PARTITION_VALUE",
        )
    kind = f"{column.type}{'' if column.nullable else ' not null'}"
    return not_null_violated({column.name: f"one where {kind} allows none"}, table)


def _faults(column: Any, source: Field, field: Field, target: WriteTarget) -> Iterator[tuple[str, Any]]:
    """What is refused of a column, with a condition that is true of such a row."""
    from pyspark.sql import functions as F

    if not isinstance(field.type, PrimitiveType):
        nulls = _has_null(column, source.type, field.type, required=source.nullable and not field.nullable)
        if nulls is not None:
            yield _NULL, nulls
    if field.name not in target.layout.partition_columns:
        return
    if source.type in (PrimitiveType("string"), PrimitiveType("binary")):
        what = _TEXT if source.type == PrimitiveType("string") else _BINARY
        yield what, ~F.is_valid_utf8(column.cast("string"))
    if field.type in (PrimitiveType("string"), PrimitiveType("binary")):
        text, longest = column.cast("string"), target.store.limits.name
        if longest is not None:
            room = partition_values.room_for_value(field.name, longest)
            escaped = F.regexp_replace(text, partition_values.ESCAPED_CHARACTER, "%00")
            # The second look, which costs more, is for texts that may be too long when each character is escaped.
            too_long = (F.octet_length(text) > room // 3) & (F.octet_length(escaped) > room)
            yield f"{_LONG} {longest} bytes", too_long
        yield _NUL, F.contains(text, F.lit("\0"))


def _has_null(column: Any, source: DataType, kind: DataType, *, required: bool) -> Any | None:
    """A condition that is true of a value with such a null; None where there can be none."""
    from pyspark.sql import functions as F

    conditions = [column.isNull()] if required else []
    if isinstance(source, StructType) and isinstance(kind, StructType):
        members = (
            _has_null(
                column.getField(inner.name), inner.type, field.type, required=inner.nullable and not field.nullable
            )
            for field in kind.fields
            if (inner := source.get(field.name)) is not None
        )
        conditions += [column.isNotNull() & nulls for nulls in members if nulls is not None]
    elif isinstance(source, ArrayType) and isinstance(kind, ArrayType):
        required = source.contains_null and not kind.contains_null
        conditions += _among(column, source.element_type, kind.element_type, required=required)
    elif isinstance(source, MapType) and isinstance(kind, MapType):
        # Spark has no null keys.
        conditions += _among(F.map_keys(column), source.key_type, kind.key_type, required=False)
        required = source.value_contains_null and not kind.value_contains_null
        conditions += _among(F.map_values(column), source.value_type, kind.value_type, required=required)
    return F.coalesce(reduce(or_, conditions), F.lit(False)) if conditions else None


def _among(items: Any, source: DataType, kind: DataType, *, required: bool) -> list[Any]:
    from pyspark.sql import functions as F

    if _has_null(F.lit(None), source, kind, required=required) is None:
        return []
    return [F.exists(items, lambda item: _has_null(item, source, kind, required=required))]
