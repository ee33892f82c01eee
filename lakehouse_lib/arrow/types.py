"""Conversions of Arrow types."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

#: The struct of the Parquet variant encoding. Neither member of a variant is null.
VARIANT = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])


def change_types(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with ``change`` applied to all nested types and then to itself."""
    types = pa.types
    if types.is_struct(kind):
        kind = pa.struct([field.with_type(change_types(field.type, change)) for field in kind])
    elif types.is_map(kind):
        key, value = (field.with_type(change_types(field.type, change)) for field in (kind.key_field, kind.item_field))
        kind = pa.map_(key, value)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        value = kind.value_field.with_type(change_types(kind.value_type, change))
        if types.is_fixed_size_list(kind):
            kind = pa.list_(value, kind.list_size)
        else:
            kind = pa.list_(value) if types.is_list(kind) else pa.large_list(value)
    return change(kind)


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with nullable fields at every depth, except the members of variants."""
    return pa.schema(
        [field.with_type(change_types(field.type, _nullable_within)).with_nullable(True) for field in schema]
    )


def _nullable_within(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return kind if kind == VARIANT else pa.struct([field.with_nullable(True) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_nullable(True))
    return pa.list_(kind.value_field.with_nullable(True)) if pa.types.is_list(kind) else kind


def without_views(kind: pa.DataType) -> pa.DataType:
    """The type with large strings and binaries instead of views at every depth, because Arrow cannot filter views."""
    return change_types(kind, _without_view)


def _without_view(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def as_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with its columns cast, by position, to the types of ``schema``; column names must be equal.

    A column that has the type is not cast: Arrow breaks a list of nulls when it casts it to its own type.

    Raises:
        ArrowInvalid: a value is not valid for its new type, or a member that is not nullable is null.
    """
    if not len(schema):
        return table  # a table without columns keeps its number of rows
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
