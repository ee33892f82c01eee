"""Conversion between Delta types and Arrow types.

======================= ============================== ==========================================================
Delta                   to Arrow                       from Arrow
======================= ============================== ==========================================================
byte, short, ...        int8, int16, int32, int64      the same; uint8 to uint32 become the next wider type;
                                                       uint64 becomes decimal(20,0)
float, double           float32, float64               the same; float16 becomes float
boolean                 bool                           bool
decimal(p,s)            decimal128(p, s)               any decimal up to 38 digits; a negative scale becomes 0
string, binary          string, binary                 large, view, fixed-size binary too
date                    date32                         date64 too
timestamp               timestamp[us, tz=UTC]          any unit and any zone; the instant is kept
timestamp_ntz           timestamp[us]                  any unit without a zone
void                    null                           null
variant                 struct of two binaries         no Arrow type
                        (metadata, value)
array, map, struct      list (member ``element``),     large, view and fixed-size lists too
                        map, struct
======================= ============================== ==========================================================

Dictionary and run-end encoded columns become the type of their values. Times of day, durations, intervals, unions and
extension types have no Delta type and are refused. Metadata of Arrow fields is dropped.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.types import VARIANT, change_types
from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, StructType

_TO_ARROW: dict[str, Any] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}

_FROM_ARROW: dict[Any, str] = {
    **{arrow: name for name, arrow in _TO_ARROW.items()},
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date64(): "date",
}


def type_to_arrow(kind: DataType, name: str = "") -> pa.DataType:
    """The Arrow type of a Delta type; raises InvalidSchemaError if there is none: an interval, or void and NOT NULL."""
    if isinstance(kind, StructType):
        return pa.struct([field_to_arrow(field, name) for field in kind.fields])
    if isinstance(kind, ArrayType):
        element = type_to_arrow(kind.element_type, name)
        return pa.list_(_arrow_field("element", element, name, nullable=kind.contains_null))
    if isinstance(kind, MapType):
        key = _arrow_field("key", type_to_arrow(kind.key_type, name), name, nullable=False)
        value = type_to_arrow(kind.value_type, name)
        return pa.map_(key.type, _arrow_field("value", value, name, nullable=kind.value_contains_null))
    decimal = kind.decimal
    if decimal is not None:
        return pa.decimal128(*decimal)
    if kind.type == "variant":
        return VARIANT
    try:
        return _TO_ARROW[kind.type]
    except KeyError:
        where = f"column {name!r} has" if name else "a column has"
        raise InvalidSchemaError(
            f"{where} the type {kind.type!r}, which this library cannot read or write",
            hint="Leave the column out, or use an engine that supports the type",
            code="DELTA_UNSUPPORTED_TYPE",
        ) from None


def field_to_arrow(field: Field, above: str = "") -> pa.Field:
    """The Arrow field of a Delta field; ``above`` is the path of its parent, for the name in errors."""
    path = f"{above}.{field.name}" if above else field.name
    return _arrow_field(field.name, type_to_arrow(field.type, path), path, nullable=field.nullable)


def _arrow_field(name: str, arrow: pa.DataType, path: str, *, nullable: bool) -> pa.Field:
    if pa.types.is_null(arrow) and not nullable:  # pyarrow has no such field
        raise InvalidSchemaError(
            f"column {path!r} has values that are void and NOT NULL; expected another type or NULL",
            hint="Make the column nullable, or give it a type",
        )
    return pa.field(name, arrow, nullable)


def with_large_offsets(arrow: pa.DataType) -> pa.DataType:
    """The type with 64-bit offsets for strings, binaries and lists, at every depth; maps have no 64-bit form."""
    return change_types(arrow, _with_large_offsets)


def _with_large_offsets(arrow: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_string(arrow):
        return pa.large_string()
    if types.is_binary(arrow):
        return pa.large_binary()
    return pa.large_list(arrow.value_field) if types.is_list(arrow) else arrow


def type_from_arrow(arrow: pa.DataType, name: str = "") -> DataType:
    """The Delta type of an Arrow type; raises InvalidSchemaError, with the column's name, if no Delta type exists."""
    primitive = _FROM_ARROW.get(arrow)
    if primitive is not None:
        return PrimitiveType(primitive)
    types = pa.types
    if types.is_struct(arrow):
        return StructType(field_from_arrow(arrow.field(i), name) for i in range(arrow.num_fields))
    if types.is_map(arrow):
        return MapType(
            type_from_arrow(arrow.key_type, f"{name}.key"),
            type_from_arrow(arrow.item_type, f"{name}.value"),
            arrow.item_field.nullable,
        )
    if is_list(arrow):
        return ArrayType(type_from_arrow(arrow.value_type, f"{name}.element"), arrow.value_field.nullable)
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return type_from_arrow(arrow.value_type, name)
    if types.is_timestamp(arrow):
        return PrimitiveType("timestamp_ntz" if arrow.tz is None else "timestamp")
    if types.is_fixed_size_binary(arrow):
        return PrimitiveType("binary")
    if types.is_decimal(arrow):
        precision, scale = arrow.precision - min(arrow.scale, 0), max(arrow.scale, 0)
        if precision <= 38 and scale <= 38:
            return PrimitiveType(f"decimal({max(precision, scale)},{scale})")
    where = f"column {name!r} has" if name else "a column has"
    raise InvalidSchemaError(
        f"{where} the Arrow type {arrow}, which has no Delta type",
        hint="Cast the column to another type before writing it",
        code="DELTA_UNSUPPORTED_TYPE",
    )


def field_from_arrow(field: pa.Field, above: str = "") -> Field:
    """The Delta field of an Arrow field; ``above`` is the path of its parent, for the name in errors."""
    name = f"{above}.{field.name}" if above else field.name
    return Field(field.name, type_from_arrow(field.type, name), field.nullable)


def is_list(arrow: pa.DataType) -> bool:
    """Whether an Arrow type is a list of any form: plain, large, of fixed size, or a view."""
    types = pa.types
    return bool(
        types.is_list(arrow)
        or types.is_large_list(arrow)
        or types.is_fixed_size_list(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )
