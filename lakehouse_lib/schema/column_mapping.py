"""Column mapping: the names of columns in files, statistics and partition values (PROTOCOL.md, Column Mapping).

Users see the *logical* names of the schema. Readers find a column in a file by its *physical* name (mode ``name``) or
by its Parquet field id (mode ``id``). Statistics and partition values use the physical name in both modes. Without
mapping (mode ``none``), both names are the same.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Literal

from lakehouse_lib.schema.nesting import all_types, with_replaced_types
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType

Mode = Literal["none", "name", "id"]

_PREFIX = "delta.columnMapping."
_ID = f"{_PREFIX}id"
_PHYSICAL_NAME = f"{_PREFIX}physicalName"
_GENERATED = re.compile(r"col-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def physical_name(field: Field, mode: Mode) -> str:
    """The physical name of a column or a struct member; the logical name if its metadata has no physical name."""
    if mode == "none":
        return field.name
    name = field.metadata.get(_PHYSICAL_NAME)
    return name if isinstance(name, str) else field.name


def with_physical_name(field: Field, name: str) -> Field:
    """The column with ``name`` as its physical name."""
    return Field(field.name, field.type, field.nullable, {**field.metadata, _PHYSICAL_NAME: name})


def with_physical_names(schema: StructType, max_id: int, current: StructType | None = None) -> tuple[Schema, int]:
    """The schema with an id and a physical name for every field, and the highest id of the table.

    Ids and physical names in ``schema`` are ignored, because its fields may come from other tables.

    Args:
        max_id: the highest id that the table has used so far (``delta.columnMapping.maxColumnId``).
        current: the table's schema so far. A field with the same path and type keeps its id and physical name, so that
            readers find the column in existing files. As in delta-spark, this is also so if a write overwrites the
            schema. Other fields get a new id and a generated name.
    """
    structs = [kind for kind in all_types(current or Schema([])) if isinstance(kind, StructType)]
    ids = count(max(max_id, *(field_id(field) or 0 for struct in structs for field in struct.fields), 0) + 1)
    fields = [
        _with_identity(field, None if current is None else current.get(field.name), ids) for field in schema.fields
    ]
    return Schema(fields), next(ids) - 1


def with_current_names(schema: StructType, max_id: int) -> tuple[Schema, int]:
    """The schema of a table that gets column mapping, with an id for every field and its name as its physical name.

    Args:
        max_id: the highest id that the table has used so far; not 0 if the table had column mapping before.

    Returns:
        The schema and the highest id.
    """
    ids = count(max_id + 1)

    def identified(field: Field) -> Field:
        metadata = {**field.metadata, _ID: next(ids), _PHYSICAL_NAME: field.name}
        return Field(field.name, with_replaced_types(field.type, identified), field.nullable, metadata)

    return Schema([identified(field) for field in schema.fields]), next(ids) - 1


def without_mapping(schema: StructType) -> Schema:
    """The schema without ids and physical names, at every depth, for a table without column mapping."""
    return Schema([_without_mapping(field) for field in schema.fields])


def is_generated(name: str) -> bool:
    """Whether a physical name was generated: ``col-`` and a UUID, as all engines generate names."""
    return _GENERATED.fullmatch(name) is not None


def _with_identity(field: Field, current: Field | None, ids: Iterator[int]) -> Field:
    metadata = dict(_without_mapping(field).metadata)
    if current is not None and _keeps_identity(current.type, field.type):
        metadata |= {key: value for key, value in current.metadata.items() if key.startswith(_PREFIX)}
        return Field(field.name, _with_identities_inside(field.type, current.type, ids), field.nullable, metadata)
    metadata |= {_ID: next(ids), _PHYSICAL_NAME: f"col-{uuid.uuid4()}"}
    return Field(field.name, _with_identities_inside(field.type, None, ids), field.nullable, metadata)


def _keeps_identity(current: DataType, kind: DataType) -> bool:
    """Whether a column of the type ``current`` keeps its id and physical name if its type becomes ``kind``.

    A void column keeps them, because files have no values of it.
    """
    if isinstance(current, PrimitiveType):
        return current in (kind, PrimitiveType("void"))
    return type(current) is type(kind)


def _with_identities_inside(kind: DataType, current: DataType | None, ids: Iterator[int]) -> DataType:
    if isinstance(kind, StructType):
        before = current if isinstance(current, StructType) else StructType([])
        return StructType([_with_identity(field, before.get(field.name), ids) for field in kind.fields])
    if isinstance(kind, ArrayType):
        element = current.element_type if isinstance(current, ArrayType) else None
        return ArrayType(_with_identities_inside(kind.element_type, element, ids), kind.contains_null)
    if isinstance(kind, MapType):
        key, value = (current.key_type, current.value_type) if isinstance(current, MapType) else (None, None)
        return MapType(
            _with_identities_inside(kind.key_type, key, ids),
            _with_identities_inside(kind.value_type, value, ids),
            kind.value_contains_null,
        )
    return kind


def _without_mapping(field: Field) -> Field:
    metadata = {key: value for key, value in field.metadata.items() if not key.startswith(_PREFIX)}
    return Field(field.name, with_replaced_types(field.type, _without_mapping), field.nullable, metadata)


def partition_key(schema: StructType, column: str, mode: Mode) -> str:
    """The key of a partition column in ``partitionValues``; ``column``: its name in the metadata's partitionColumns."""
    return column if mode == "none" else physical_name(schema.field(column), mode)


def field_id(field: Field) -> int | None:
    """The Parquet field id of a column; None if its metadata has none."""
    number = field.metadata.get(_ID)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def physical_path(schema: StructType, path: tuple[str, ...], mode: Mode) -> tuple[str, ...]:
    """The physical names on the path to a leaf column; raises KeyError if there is no such leaf."""
    names = []
    kind: DataType = schema
    for part in path:
        if not isinstance(kind, StructType):
            raise KeyError(part)
        field = kind.field(part)
        names.append(physical_name(field, mode))
        kind = field.type
    return tuple(names)


def physical_schema(schema: StructType, mode: Mode) -> Schema:
    """The schema with physical names at every depth, in the same order and with the same metadata."""
    return Schema([_physical(field, mode) for field in schema.fields])


def _physical(field: Field, mode: Mode) -> Field:
    kind = with_replaced_types(field.type, partial(_physical, mode=mode))
    return Field(physical_name(field, mode), kind, field.nullable, field.metadata)
