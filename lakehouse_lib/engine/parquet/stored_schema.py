"""The columns of a data file: physical names and field ids, in Arrow types (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, StructType, TableLayout, all_types
from lakehouse_lib.schema.column_mapping import field_id

_FIELD_ID = b"PARQUET:field_id"


def stored_schema(layout: TableLayout) -> pa.Schema:
    """The columns of a data file: the table's columns under their physical names, and the materialized columns.

    Materialized columns are those of row ids, and copies of partition columns.

    Every column is nullable, as in files of delta-spark, because a write checks NOT NULL for each row. Struct members,
    list elements and map values are required where the table's schema declares NOT NULL. Otherwise delta-rs could not
    read a null struct: it casts the file's type to the table's type, and a null struct with optional members cannot be
    cast to a struct with required members.
    """
    columns = [_stored(field).with_nullable(True) for field in layout.physical.data_columns.fields]
    row_ids = () if layout.row_ids is None else layout.row_ids.fields
    copies = [_stored(field).with_nullable(True) for field in layout.physical.copied_partition_columns.fields]
    return pa.schema([*columns, *(field.to_arrow() for field in row_ids), *copies])


def column_names(layout: TableLayout) -> list[str]:
    """The logical names of the columns of ``stored_schema`` except copies of partition columns, in the same order."""
    row_ids = () if layout.row_ids is None else layout.row_ids.fields
    return [*layout.data_columns.names, *(field.name for field in row_ids)]


def _stored(field: Field) -> pa.Field:
    number = field_id(field)
    metadata = None if number is None else {_FIELD_ID: str(number).encode()}
    return pa.field(field.name, _stored_type(field.type), field.nullable, metadata)


def _stored_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_stored(field) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", _stored_type(kind.element_type), kind.contains_null))
    if isinstance(kind, MapType):
        value = pa.field("value", _stored_type(kind.value_type), kind.value_contains_null)
        return pa.map_(_stored_type(kind.key_type), value)
    return kind.to_arrow()


def check_rows_are_kept(target: WriteTarget) -> None:
    """Refuse a schema whose rows data files cannot store.

    In such a schema every column is void or a partition column, or a struct has no members.

    Raises:
        InvalidSchemaError: data files cannot store the rows; the error names the columns.
    """
    table = target.store.root
    for field in target.layout.schema.fields:
        if any(isinstance(kind, StructType) and not len(kind) for kind in all_types(field.type)):
            raise InvalidSchemaError(
                f"column {field.name!r} has a struct without members, which data files cannot hold",
                table=table,
                hint="Omit the column",
            )
    if not column_names(target.layout):
        raise InvalidSchemaError(
            "every column is void or a partition column, so data files could not store the rows: "
            f"{', '.join(target.layout.schema.names)}",
            table=table,
            hint="Add a column with values, or cast a void column to the type that its values will have",
        )
