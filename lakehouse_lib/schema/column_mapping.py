"""Column mapping: the names of columns in files, statistics and partition values (PROTOCOL.md, Column Mapping).

Users see the *logical* names of the schema. Readers find a column in a file by its *physical* name (mode ``name``) or
by its Parquet field id (mode ``id``). Statistics and partition values use the physical name in both modes. Without
mapping (mode ``none``), both names are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Literal

from lakehouse_lib.schema.nesting import all_types, replaced
from lakehouse_lib.schema.types import DataType, Field, Schema, StructType

Mode = Literal["none", "name", "id"]

_ID = "delta.columnMapping.id"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def physical_name(field: Field, mode: Mode) -> str:
    """The physical name of a column or a struct member; the logical name if its metadata has no physical name."""
    if mode == "none":
        return field.name
    name = field.metadata.get(_PHYSICAL_NAME)
    return name if isinstance(name, str) else field.name


def stored_as(field: Field, name: str) -> Field:
    """The column with ``name`` as its physical name."""
    return Field(field.name, field.type, field.nullable, {**field.metadata, _PHYSICAL_NAME: name})


def with_physical_names(schema: StructType, max_id: int) -> tuple[Schema, int]:
    """The schema with an id and a physical name for every field that lacks them, and the new highest id.

    Args:
        max_id: the highest id that the table has used so far (``delta.columnMapping.maxColumnId``).
    """
    structs = [kind for kind in all_types(schema) if isinstance(kind, StructType)]
    ids = count(max(max_id, *(field_id(field) or 0 for struct in structs for field in struct.fields)) + 1)
    fields = [_identified(field, ids) for field in schema.fields]
    return Schema(fields), next(ids) - 1


def _identified(field: Field, ids: Iterator[int]) -> Field:
    metadata = dict(field.metadata)
    if field_id(field) is None:
        metadata[_ID] = next(ids)
    metadata.setdefault(_PHYSICAL_NAME, f"col-{uuid.uuid4()}")
    kind = replaced(field.type, partial(_identified, ids=ids))
    return Field(field.name, kind, field.nullable, metadata)


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
    kind = replaced(field.type, partial(_physical, mode=mode))
    return Field(physical_name(field, mode), kind, field.nullable, field.metadata)
