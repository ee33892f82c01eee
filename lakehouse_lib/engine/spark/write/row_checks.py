"""What a table does not allow, and Spark's own writer would write: it is looked for row by row while rows are written.

Nulls in nested columns: of a null struct, list or map the footers say no more than of one whose members are null, and
of a null member no more than of one whose struct is null. Text or binaries that are no UTF-8 in a partition column:
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
_FOUND = re.compile(
    rf"lakehouse refuses (?P<what>{_NULL}|{_BINARY}|{_TEXT}|{_LONG} \d+ bytes|{_NUL}) in column <(?P<column>[^>]*)>"
)


def checked(frame: Any, target: WriteTarget) -> Any:
    """The frame, which fails when a row is written that ``target`` does not allow."""
    from pyspark.sql import functions as F

    columns = []
    for one in Schema.from_json(frame.schema.json()).fields:
        column, wanted = F.col(quoted(one.name)), target.layout.schema.get(one.name)
        for what, found in [] if wanted is None else _faults(column, one, wanted, target):
            refused = F.raise_error(F.lit(f"lakehouse refuses {what} in column <{one.name}>"))
            column = F.when(found, refused).otherwise(column)
        columns.append(column.alias(one.name))
    return frame.select(*columns)


def refusal(error: DeltaError, target: WriteTarget) -> DeltaError | None:
    """What to raise when such a frame could not be written, if that was because of such a row."""
    found = _FOUND.search(str(error.__cause__))
    if found is None:
        return None
    column, table = target.layout.schema.field(found["column"]), target.store.root
    if found["what"] == _BINARY:
        return InvalidArgumentError(
            f"a binary partition value of column {column.name!r} is not UTF-8",
            table=table,
            hint="Partition by another column.",
            code="DELTA_INVALID_PARTITION_VALUE",
        )
    if found["what"] == _TEXT:
        return SchemaMismatchError(
            f"{column.name}: expected {column.type}, got {_TEXT}",
            table=table,
            hint="Decode text by the encoding that it was written in, or write it as binary.",
        )
    if found["what"].startswith((_LONG, _NUL)):
        return InvalidArgumentError(
            f"column {column.name}: the data has {found['what']}",
            table=table,
            hint=partition_values.LENGTH_HINT,
            code="DELTA_INVALID_PARTITION_VALUE",
        )
    kind = f"{column.type}{'' if column.nullable else ' not null'}"
    return not_null_violated({column.name: f"one where {kind} allows none"}, table)


def _faults(column: Any, source: Field, wanted: Field, target: WriteTarget) -> Iterator[tuple[str, Any]]:
    """What is refused of a column, with a condition that is true of such a row."""
    from pyspark.sql import functions as F

    if not isinstance(wanted.type, PrimitiveType):
        nulls = _has_null(column, source.type, wanted.type, required=source.nullable and not wanted.nullable)
        if nulls is not None:
            yield _NULL, nulls
    if wanted.name not in target.layout.partition_columns:
        return
    if source.type in (PrimitiveType("string"), PrimitiveType("binary")):
        what = _TEXT if source.type == PrimitiveType("string") else _BINARY
        yield what, ~F.is_valid_utf8(column.cast("string"))
    if wanted.type in (PrimitiveType("string"), PrimitiveType("binary")):
        text, longest = column.cast("string"), target.store.limits.name
        if longest is not None:
            room = partition_values.room_for_value(wanted.name, longest)
            escaped = F.regexp_replace(text, partition_values.ESCAPED_CHARACTER, "%00")
            # The second look, which costs more, is for texts that may be too long when each character is escaped.
            too_long = (F.octet_length(text) > room // 3) & (F.octet_length(escaped) > room)
            yield f"{_LONG} {longest} bytes", too_long
        yield _NUL, F.contains(text, F.lit("\0"))


def _has_null(column: Any, source: DataType, wanted: DataType, *, required: bool) -> Any | None:
    """A condition that is true of a value with such a null; None where there can be none."""
    from pyspark.sql import functions as F

    found = [column.isNull()] if required else []
    if isinstance(source, StructType) and isinstance(wanted, StructType):
        members = (
            _has_null(column.getField(inner.name), inner.type, one.type, required=inner.nullable and not one.nullable)
            for one in wanted.fields
            if (inner := source.get(one.name)) is not None
        )
        found += [column.isNotNull() & nulls for nulls in members if nulls is not None]
    elif isinstance(source, ArrayType) and isinstance(wanted, ArrayType):
        required = source.contains_null and not wanted.contains_null
        found += _among(column, source.element_type, wanted.element_type, required=required)
    elif isinstance(source, MapType) and isinstance(wanted, MapType):
        found += _among(F.map_keys(column), source.key_type, wanted.key_type, required=False)  # Spark has no null keys
        required = source.value_contains_null and not wanted.value_contains_null
        found += _among(F.map_values(column), source.value_type, wanted.value_type, required=required)
    return F.coalesce(reduce(or_, found), F.lit(False)) if found else None


def _among(items: Any, source: DataType, wanted: DataType, *, required: bool) -> list[Any]:
    from pyspark.sql import functions as F

    if _has_null(F.lit(None), source, wanted, required=required) is None:
        return []
    return [F.exists(items, lambda item: _has_null(item, source, wanted, required=required))]
