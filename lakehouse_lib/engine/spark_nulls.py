"""Nulls where a table allows none, in a DataFrame that Spark's own writer is to write.

The footers tell of nulls in plain columns. Of a null struct, list or map they say no more than of one whose members
are null, and of a null member no more than of one whose struct is null: so Spark looks, row by row, while it writes.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import or_
from typing import Any

from lakehouse_lib.engine.spark_columns import quoted
from lakehouse_lib.errors import DeltaError, SchemaMismatchError
from lakehouse_lib.schema import ArrayType, DataType, MapType, PrimitiveType, Schema, StructType

_MARK = "a null where lakehouse expects none in column "
_FOUND = re.compile(rf"{_MARK}<(?P<column>[^>]*)>")


def refusing_nulls(frame: Any, schema: Schema) -> Any:
    """The frame, which fails when a row is written that has a null in a nested column where ``schema`` allows none."""
    from pyspark.sql import functions as F

    columns = []
    for one in Schema.from_json(frame.schema.json()).fields:
        column, wanted = F.col(quoted(one.name)), schema.get(one.name)
        if wanted is not None and not isinstance(wanted.type, PrimitiveType):
            nulls = _has_null(column, one.type, wanted.type, required=one.nullable and not wanted.nullable)
            if nulls is not None:
                column = F.when(nulls, F.raise_error(F.lit(f"{_MARK}<{wanted.name}>"))).otherwise(column)
        columns.append(column.alias(one.name))
    return frame.select(*columns)


def refusal(error: DeltaError, schema: Schema, table: str) -> SchemaMismatchError | None:
    """What to raise when such a frame could not be written, if that was because of a null."""
    found = _FOUND.search(str(error.__cause__))
    if found is None:
        return None
    column = schema.field(found["column"])
    kind = f"{column.type}{'' if column.nullable else ' not null'}"
    return SchemaMismatchError(
        f"the data does not fit the table's schema: {column.name}: expected {kind}, got a null where it allows none",
        table=table,
        hint="Fill or drop these rows.",
    )


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
