"""The JSON form of a schema (PROTOCOL.md, section Schema Serialization Format)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, StructType

#: Levels of types below a column: far beyond what tables have, and within what Python's stack holds when two schemas
#: are compared, the walk that takes the most of it (six frames a level).
MAX_NESTING = 100
#: Types are values that can be shared, and every version of a table has the same text for its schema, as a rule.
_KEPT = 32


def dump(value: DataType | Field) -> str:
    plain = _field_to_value(value) if isinstance(value, Field) else _type_to_value(value)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


@lru_cache(_KEPT)
def load(text: str) -> DataType:
    """Raises InvalidSchemaError for text that is no JSON, or no type. A type of an unknown name is kept as written."""
    return _type_from_value(_parse(text))


def load_field(text: str) -> Field:
    """Raises InvalidSchemaError for text that is no JSON, or no field."""
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
    return {"type": "struct", "fields": [_field_to_value(one) for one in kind.fields]}


def _field_to_value(one: Field) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": _type_to_value(one.type),
        "nullable": one.nullable,
        "metadata": dict(one.metadata),
    }


def _type_from_value(value: Any, depth: int = 0) -> DataType:
    if isinstance(value, str):
        return PrimitiveType.as_written(value)
    kind = value.get("type") if isinstance(value, dict) else None
    read = _NESTED.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InvalidSchemaError(f"not a type of a Delta table: {excerpt(value)}", code="DELTA_UNSUPPORTED_TYPE")
    if depth > MAX_NESTING:
        raise InvalidSchemaError(
            f"types are nested more than {MAX_NESTING} deep",
            hint="Flatten the columns, or use the engine that wrote it",
        )
    return read(value, depth + 1)


def _struct_from_value(value: Mapping[str, Any], depth: int) -> StructType:
    fields: Sequence[Any] = _member(value, "fields", list)
    found = []
    # A loop, not an expression of its own: each level of a schema costs two frames of the stack here, not four.
    for one in fields:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or "type" not in one:
            raise InvalidSchemaError(f"a field without a name or a type in the schema: {excerpt(one)}")
        metadata = one.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise InvalidSchemaError(f"the metadata of the column {excerpt(one['name'])} is {excerpt(metadata)}")
        found.append(
            Field(one["name"], _type_from_value(one["type"], depth), _member(one, "nullable", bool, True), metadata)
        )
    return StructType(found)


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
    found = value.get(key)
    if found is None:
        if default is None:
            raise InvalidSchemaError(f"a type without {key} in the schema: {excerpt(value)}")
        return default
    if kind is not None and not isinstance(found, kind):
        raise InvalidSchemaError(f"{key} is {excerpt(found)} in the schema: {excerpt(value)}")
    return found


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except (TypeError, ValueError) as error:
        raise InvalidSchemaError(f"the schema is not JSON ({error}): {excerpt(text)}") from error
