"""Fields at any depth of a schema: columns, and members of structs in columns, lists and maps.

A path has the names from the column to the field: ``("address", "city")``. As in delta-spark, a path through a list has
the name ``element``, and a path through a map has the name ``key`` or ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lakehouse_lib.schema.nesting import all_types
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, Schema, StructType

Path = tuple[str, ...]


def find_field(schema: StructType, path: Sequence[str]) -> tuple[Path, Field] | None:
    """The field at a path, and its path as the schema spells it; None if the schema has no such field.

    The names of fields are matched regardless of case.
    """
    spelled: list[str] = []
    kind: DataType = schema
    field: Field | None = None
    for name in path:
        if isinstance(kind, StructType):
            field = kind.get(name)
            if field is None:
                return None
            spelled.append(field.name)
            kind = field.type
        else:
            inner = _inner(kind).get(name)
            if inner is None:
                return None
            field = None
            spelled.append(name)
            kind = inner
    return None if field is None else (tuple(spelled), field)


def members_of(schema: Schema) -> Iterator[Field]:
    """The members of the structs in columns, at every depth."""
    for kind in all_types(schema):
        if isinstance(kind, StructType) and kind is not schema:
            yield from kind.fields


def fields_of(schema: Schema, parent: Path) -> list[Field]:
    """The fields of the struct at ``parent``: a path of ``find_field`` without its last name, or () for the columns."""
    kind: DataType = schema
    for name in parent:
        kind = kind.field(name).type if isinstance(kind, StructType) else _inner(kind)[name]
    assert isinstance(kind, StructType)
    return list(kind.fields)


def with_fields_of(schema: Schema, parent: Path, fields: Sequence[Field]) -> Schema:
    """The schema with other fields in the struct at ``parent``, a path as in ``fields_of``.

    Raises:
        DuplicateColumnError: two fields have the same name, regardless of case.
    """
    changed = _replaced(schema, parent, lambda _: StructType(fields))
    assert isinstance(changed, StructType)
    return Schema(changed.fields)


def _inner(kind: DataType) -> dict[str, DataType]:
    """The types directly inside a list or a map, by their names in paths."""
    if isinstance(kind, ArrayType):
        return {"element": kind.element_type}
    return {"key": kind.key_type, "value": kind.value_type} if isinstance(kind, MapType) else {}


def _replaced(kind: DataType, path: Path, change: Callable[[DataType], DataType]) -> DataType:
    if not path:
        return change(kind)
    name, inner_path = path[0], path[1:]
    if isinstance(kind, StructType):
        return StructType(
            [
                Field(field.name, _replaced(field.type, inner_path, change), field.nullable, field.metadata)
                if field.name == name
                else field
                for field in kind.fields
            ]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_replaced(kind.element_type, inner_path, change), kind.contains_null)
    assert isinstance(kind, MapType)
    if name == "key":
        return MapType(_replaced(kind.key_type, inner_path, change), kind.value_type, kind.value_contains_null)
    return MapType(kind.key_type, _replaced(kind.value_type, inner_path, change), kind.value_contains_null)
