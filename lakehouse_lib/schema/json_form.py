"""The JSON form of a schema (PROTOCOL.md, section Schema Serialization Format)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, StructType

#: The largest number of levels of types below a column. Tables have far fewer. Every recursive function can handle this
#: number of levels within Python's recursion limit: a comparison of two schemas needs the most frames, six per level.
MAX_NESTING = 100
#: The number of parsed schemas in the cache. Types are immutable, so they can be shared. Most versions of a table have
#: the same schema text.
_CACHE_SIZE = 32


def dump(value: DataType | Field) -> str:
    """The JSON text of a type or a field."""
    plain = _field_to_value(value) if isinstance(value, Field) else _type_to_value(value)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


@lru_cache(_CACHE_SIZE)
def load(text: str) -> DataType:
    """The type of a JSON text; raises InvalidSchemaError if it is not a type. An unknown type name stays as written."""
    return _type_from_value(_parse(text))


def load_field(text: str) -> Field:
    """The field of a JSON text; raises InvalidSchemaError if it is not a field."""
    (field,) = _struct_from_value({"fields": [_parse(text)]}, 0).fields
    return field


def _type_to_value(kind: DataType) -> Any:
    if isinstance(kind, PrimitiveType):
        return kind.type
    if isinstance(kind, ArrayType):
        return {
            "type": "array",
            "elementType": _type_to_value(kind.element_type),
            "containsNull": kind.contains_null,
        }
    if isinstance(kind, MapType):
        return {
            "type": "map",
            "keyType": _type_to_value(kind.key_type),
            "valueType": _type_to_value(kind.value_type),
            "valueContainsNull": kind.value_contains_null,
        }
    return {"type": "struct", "fields": [_field_to_value(field) for field in kind.fields]}


def _field_to_value(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": _type_to_value(field.type),
        "nullable": field.nullable,
        "metadata": field.metadata,
    }


def _type_from_value(value: Any, depth: int = 0) -> DataType:
    if isinstance(value, str):
        return PrimitiveType.of_name(value)
    kind = value.get("type") if isinstance(value, dict) else None
    read = _NESTED.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidSchemaError(f"{excerpt(value)} is not a type of a Delta table", code="DELTA_UNSUPPORTED_TYPE")
    if depth > MAX_NESTING:
        raise InvalidSchemaError(
            f"types are nested in more than {MAX_NESTING} levels",
            hint="Flatten the columns, or use the engine that wrote the table",
        )
    return read(value, depth + 1)


def _struct_from_value(value: Mapping[str, Any], depth: int) -> StructType:
    entries: Sequence[Any] = _member(value, "fields", list)
    fields = []
    # A loop instead of a comprehension: each level of a schema takes two frames of the stack instead of four.
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "type" not in entry:
            raise InvalidSchemaError(f"a field of the schema has no name or no type: {excerpt(entry)}")
        metadata = entry.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise InvalidSchemaError(
                f"metadata of the column {excerpt(entry['name'])} is {excerpt(metadata)}; expected an object"
            )
        fields.append(
            Field(
                entry["name"], _type_from_value(entry["type"], depth), _member(entry, "nullable", bool, True), metadata
            )
        )
    return StructType(fields)


def _array_from_value(value: Mapping[str, Any], depth: int) -> ArrayType:
    element = _type_from_value(_member(value, "elementType"), depth)
    return ArrayType(element, _member(value, "containsNull", bool, True))


def _map_from_value(value: Mapping[str, Any], depth: int) -> MapType:
    key = _type_from_value(_member(value, "keyType"), depth)
    return MapType(
        key,
        _type_from_value(_member(value, "valueType"), depth),
        _member(value, "valueContainsNull", bool, True),
    )


_NESTED: Mapping[str, Callable[[Mapping[str, Any], int], DataType]] = {
    "struct": _struct_from_value,
    "array": _array_from_value,
    "map": _map_from_value,
}


def _member(value: Mapping[str, Any], key: str, kind: type | None = None, default: Any = None) -> Any:
    member = value.get(key)
    if member is None:
        if default is None:
            raise InvalidSchemaError(f"a type of the schema has no {key}: {excerpt(value)}")
        return default
    if kind is not None and not isinstance(member, kind):
        raise InvalidSchemaError(f"{key} is {excerpt(member)} in {excerpt(value)}; expected a {kind.__name__}")
    return member


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except (TypeError, ValueError) as error:
        raise InvalidSchemaError(f"the schema is not JSON ({error}): {excerpt(text)}") from error
