"""Conversion between a table's columns and the columns that Spark reads from its data files.

Spark reads by name. So a scan requests the names that columns and members have in the files (column mapping), and then
renames them. Files do not have void columns. A void member of a struct is requested under a name that no file has, and
Spark fills this member with nulls. A null struct stays different from a struct whose members are all null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType, all_types
from lakehouse_lib.schema.nesting import parts, with_replaced_types
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.schema.type_widening import changes_of

#: A function that returns the name that a column or struct member has in a group of files.
Names = Callable[[Field], str]

#: Spark reads stored integers as a decimal only if the decimal has at least this many digits before the point.
_SPARK_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_VOID = PrimitiveType("void")
_FLOATING = (PrimitiveType("float"), PrimitiveType("double"))
_ABSENT = "__lakehouse_absent"


def struct_type(schema: StructType) -> Any:
    """A Delta schema as Spark's StructType; both have the same JSON form."""
    from pyspark.sql.types import StructType as SparkStruct

    return SparkStruct.fromJson(json.loads(schema.to_json()))


def check_types(schema: Schema, *, table: str, version: int) -> None:
    """Refuse columns whose types Spark cannot read.

    Raises:
        UnsupportedFeatureError: a column has such a type; the error names the first one.
    """
    for field in schema.fields:
        unreadable = _unreadable_type(field.type)
        if unreadable:
            raise UnsupportedFeatureError(
                f"column {field.name!r} has the type {unreadable}, which Spark cannot read",
                table=table,
                version=version,
                hint="Leave the column out: name the other columns",
            )


def in_files(schema: StructType, names: Names) -> Schema:
    """The columns that a scan requests; all are nullable, because files may have nulls in NOT NULL columns."""
    return Schema([_member(field, names) for field in schema.fields if field.type != _VOID])


def as_schema(schema: StructType) -> Schema:
    """The schema of the rows that a read returns: all columns are nullable, with the metadata that users see."""
    return Schema(map(_visible_field, schema.fields))


def as_column(field: Field, name: str) -> Any:
    """The Spark column ``name`` with the name of ``field``, and with the metadata of ``field`` that users see."""
    from pyspark.sql import functions as F

    return F.col(quoted(name)).alias(field.name, metadata=_visible_metadata(field.metadata))


def as_user_column(field: Field, names: Names) -> Any:
    """The Spark column for ``field`` from a scan of ``in_files``, with the name and metadata that users see."""
    from pyspark.sql import functions as F

    if field.type == _VOID:
        column = F.lit(None)
    else:
        column = _renamed(F.col(quoted(names(field))), field.type, names, _integer_digits(field))
    if field.type in _FLOATING:
        # Multiply by 1, because Spark does not push a condition on a product down to row groups. For Spark, NaN is
        # greater than every number, but parquet-cpp and parquet-rs leave NaN out of a row group's max. A pushed
        # condition would therefore skip rows with NaN.
        column = column * F.lit(1).cast(spark_type(field.type))
    return column.alias(field.name, metadata=_visible_metadata(field.metadata))


def has_floats_in_structs(schema: StructType) -> bool:
    """Whether a struct column has a floating-point member; Spark may push a condition on it down to row groups."""
    return any(isinstance(field.type, StructType) and _has_floats(field.type) for field in schema.fields)


def _has_floats(kind: StructType) -> bool:
    return any(
        _has_floats(field.type) if isinstance(field.type, StructType) else field.type in _FLOATING
        for field in kind.fields
    )


def spark_type(kind: DataType) -> Any:
    """A Delta type as Spark's type, nullable at every depth."""
    return struct_type(StructType([Field("c", _nullable(kind))])).fields[0].dataType


def _renamed(column: Any, kind: DataType, names: Names, digits: int) -> Any:
    from pyspark.sql import functions as F

    if _VOID in all_types(kind):
        if isinstance(kind, StructType):
            members = [
                (F.lit(None) if member.type == _VOID else _renamed_member(column, member, names)).alias(member.name)
                for member in kind.fields
            ]
            return F.when(column.isNotNull(), F.struct(*members))
        if isinstance(kind, ArrayType):
            return F.transform(column, lambda item: _renamed(item, kind.element_type, names, digits))
        assert isinstance(kind, MapType)
        entries = F.transform(
            F.map_entries(column),
            lambda entry: F.struct(
                _renamed(entry.getField("key"), kind.key_type, names, digits).alias("key"),
                _renamed(entry.getField("value"), kind.value_type, names, digits).alias("value"),
            ),
        )
        return F.map_from_entries(entries)
    # Spark casts structs by position, so a cast to the same types under other names renames members.
    return column if str(_in_files(kind, names, digits)) == str(kind) else column.cast(spark_type(kind))


def _renamed_member(column: Any, member: Field, names: Names) -> Any:
    return _renamed(column.getField(names(member)), member.type, names, _integer_digits(member))


def _member(field: Field, names: Names) -> Field:
    if field.type == _VOID:
        return Field(f"{_ABSENT}_{field.name}", PrimitiveType("boolean"))
    return Field(
        names(field), _in_files(field.type, names, _integer_digits(field)), True, _visible_metadata(field.metadata)
    )


def _in_files(kind: DataType, names: Names, digits: int) -> DataType:
    """The type that a scan requests; decimals have at least ``digits`` digits before the point, at most 38 in all."""
    return with_replaced_types(kind, partial(_member, names=names), partial(_with_digits, digits=digits), nullable=True)


def _with_digits(kind: DataType, digits: int) -> DataType:
    if isinstance(kind, PrimitiveType) and kind.decimal is not None and digits:
        precision, scale = kind.decimal
        return PrimitiveType(f"decimal({min(max(precision, digits + scale), 38)},{scale})")
    return kind


def _integer_digits(field: Field) -> int:
    """The digits before the point that Spark requires of a decimal column whose old files store integers.

    The result is 0 for a column that never had an integer type.
    """
    return max((_SPARK_DIGITS.get(old, 0) for old, new in changes_of(field) if new.decimal is not None), default=0)


def _nullable(kind: DataType) -> DataType:
    return with_replaced_types(kind, _visible_field, nullable=True)


def _visible_field(field: Field) -> Field:
    return Field(field.name, _nullable(field.type), True, _visible_metadata(field.metadata))


def _unreadable_type(kind: DataType) -> str | None:
    """The name of a type within ``kind`` that Spark cannot read, such as an array of void; None: Spark can read all."""
    if isinstance(kind, PrimitiveType):
        return None if kind.is_known or kind.type == "variant" else kind.type
    if isinstance(kind, ArrayType | MapType) and _VOID in parts(kind):
        return str(kind)
    return next((name for part in parts(kind) if (name := _unreadable_type(part))), None)


def _visible_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a column that users see, such as its comment.

    Metadata for writers is left out: Spark would fill missing columns because of ``EXISTS_DEFAULT``, and pad values in
    comparisons because of the length of a CHAR.
    """
    return {
        key: value for key, value in metadata.items() if not key.startswith(("delta.", "__")) and "DEFAULT" not in key
    }
