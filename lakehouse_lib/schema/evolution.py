"""Schema evolution: the table's schema with new columns and nested fields."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse_lib.errors import DuplicateColumnError, InvalidSchemaError, SchemaMismatchError
from lakehouse_lib.schema.rows.enforcement import Mismatch, find_repeated_names, refusal, type_mismatches
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType


def merge(schema: Schema, incoming: pa.Schema, *, table: str | None = None) -> Schema:
    """The schema with the new columns and nested fields of ``incoming`` at the end.

    Each is nullable, but its type is that of ``incoming``: members that are NOT NULL in a new struct stay NOT NULL. A
    void column gets the type of the incoming column. Any other change of type is refused.

    Raises:
        SchemaMismatchError: lists every column whose type does not fit.
        InvalidSchemaError: a column of ``incoming`` has no Delta type.
    """
    repeated_names = find_repeated_names(incoming)
    if repeated_names:
        raise refusal(repeated_names, table)
    mismatches: list[Mismatch] = []
    merged = _merge_struct(schema, Schema.from_arrow(incoming), "", mismatches)
    if mismatches:
        raise refusal(mismatches, table)
    return Schema(merged.fields)


def with_fields(schema: Schema, fields: Sequence[Field], *, table: str | None = None) -> Schema:
    """The schema with new columns at the end, and new members at the end of its structs.

    A field with the name of a column must have the type of this column, except that a struct may have new members.

    Args:
        fields: columns with their metadata; for a new member, a struct column with this member.

    Raises:
        SchemaMismatchError: lists every column whose type differs.
        InvalidSchemaError: a new column or member is NOT NULL.
        DuplicateColumnError: names differ only in case.
    """
    mismatches: list[Mismatch] = []
    wider = _with_fields(schema, fields, "", mismatches, table)
    if mismatches:
        raise SchemaMismatchError(
            f"the table has columns of these names with other types: {'; '.join(map(str, mismatches))}",
            table=table,
            hint="Use other names, or change the type with alter.change_column_type",
        )
    return Schema(wider.fields)


def with_members_of(kind: DataType, other: DataType) -> DataType:
    """The type ``kind`` with the nullable members that only ``other`` has, at any depth.

    The members are in the order of ``other``. Members that only ``kind`` has follow at the end. A name that differs
    only in case from a member of ``kind`` adds no member. Keys of maps stay as they are.
    """
    if isinstance(kind, StructType) and isinstance(other, StructType):
        own = {field.name: field for field in kind.fields}
        fields: dict[str, Field] = {}
        for field in other.fields:
            member = own.get(field.name)
            if member is not None:
                wider = with_members_of(member.type, field.type)
                fields[field.name] = Field(member.name, wider, member.nullable, member.metadata)
            elif field.nullable and field.name not in kind:
                fields[field.name] = Field(field.name, field.type)
        return StructType({**fields, **{name: field for name, field in own.items() if name not in fields}}.values())
    if isinstance(kind, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(with_members_of(kind.element_type, other.element_type), kind.contains_null)
    if isinstance(kind, MapType) and isinstance(other, MapType):
        value = with_members_of(kind.value_type, other.value_type)
        return MapType(kind.key_type, value, kind.value_contains_null)
    return kind


def _with_fields(
    struct: StructType, fields: Sequence[Field], above: str, mismatches: list[Mismatch], table: str | None
) -> StructType:
    members = {field.name: field for field in struct.fields}
    for field in fields:
        path = above + field.name
        current = members.get(field.name)
        if current is not None:
            kind = _wider_type(current.type, field, path, mismatches, table)
            members[field.name] = Field(current.name, kind, current.nullable, current.metadata)
            continue
        twin = next((name for name in members if name.lower() == field.name.lower()), None)
        if twin is not None:
            raise DuplicateColumnError(
                f"the columns {above + twin!r} and {path!r} differ only in case",
                table=table,
                hint=f"Use another name; the table has {above + twin}",
            )
        if not field.nullable:
            raise InvalidSchemaError(
                f"the new column {path!r} is NOT NULL; expected a nullable column",
                table=table,
                hint="Existing rows have null in a new column; add it as nullable",
            )
        members[field.name] = field
    return StructType(list(members.values()))


def _wider_type(current: DataType, field: Field, path: str, mismatches: list[Mismatch], table: str | None) -> DataType:
    """The type with the new members that the type of ``field`` has."""
    if isinstance(current, StructType) and isinstance(field.type, StructType):
        return _with_fields(current, field.type.fields, f"{path}.", mismatches, table)
    if isinstance(current, ArrayType) and isinstance(field.type, ArrayType):
        element = Field("element", field.type.element_type)
        inner = _wider_type(current.element_type, element, f"{path}.element", mismatches, table)
        return ArrayType(inner, current.contains_null)
    if isinstance(current, MapType) and isinstance(field.type, MapType):
        value = Field("value", field.type.value_type)
        if current.key_type != field.type.key_type:
            mismatches.append(Mismatch(f"{path}.key", str(current.key_type), str(field.type.key_type)))
        inner = _wider_type(current.value_type, value, f"{path}.value", mismatches, table)
        return MapType(current.key_type, inner, current.value_contains_null)
    if current != field.type:
        mismatches.append(Mismatch(path, str(current), str(field.type)))
    return current


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
