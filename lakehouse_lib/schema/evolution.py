"""Schema evolution: the table's schema with the new columns and nested fields of incoming data."""

from __future__ import annotations

import pyarrow as pa

from lakehouse_lib.schema.enforcement import Mismatch, doubled_names, refusal, type_mismatches
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType


def merge(schema: Schema, incoming: pa.Schema, *, table: str | None = None) -> Schema:
    """The schema with the new columns and nested fields of ``incoming`` at the end, all nullable.

    A void column gets the type of the incoming column. Any other change of type is refused.

    Raises:
        SchemaMismatchError: lists every column whose type does not fit.
    """
    doubled = doubled_names(incoming)
    if doubled:
        raise refusal(doubled, table)
    mismatches: list[Mismatch] = []
    merged = _merge_struct(schema, Schema.from_arrow(incoming), "", mismatches)
    if mismatches:
        raise refusal(mismatches, table)
    return Schema(merged.fields)


def _merge_struct(table: StructType, data: StructType, above: str, mismatches: list[Mismatch]) -> StructType:
    fields = []
    for field in table.fields:
        other = data.get(field.name)
        if other is None:
            fields.append(field)
        else:
            kind = _merge_type(field.type, other.type, above + field.name, field.nullable, mismatches)
            fields.append(Field(field.name, kind, field.nullable, field.metadata))
    fields += [Field(field.name, field.type, True) for field in data.fields if field.name not in table]
    return StructType(fields)


def _merge_type(table: DataType, data: DataType, name: str, nullable: bool, mismatches: list[Mismatch]) -> DataType:
    if isinstance(table, StructType) and isinstance(data, StructType):
        return _merge_struct(table, data, f"{name}.", mismatches)
    if isinstance(table, ArrayType) and isinstance(data, ArrayType):
        inner = _merge_type(table.element_type, data.element_type, f"{name}.element", table.contains_null, mismatches)
        return ArrayType(inner, table.contains_null)
    if isinstance(table, MapType) and isinstance(data, MapType):
        return MapType(
            _merge_type(table.key_type, data.key_type, f"{name}.key", False, mismatches),
            _merge_type(table.value_type, data.value_type, f"{name}.value", table.value_contains_null, mismatches),
            table.value_contains_null,
        )
    if table == PrimitiveType("void"):
        return data
    mismatches += type_mismatches(table, data, name, nullable)
    return table
