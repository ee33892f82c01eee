"""The JSON form of a schema (PROTOCOL.md, section Schema Serialization Format)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, StructType


def dump(value: DataType | Field) -> str:
    plain = _field_to_value(value) if isinstance(value, Field) else _type_to_value(value)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def load(text: str) -> DataType:
    """Raises InvalidSchemaError for text that is no JSON, or no type. A type of an unknown name is kept as written."""
    return _type_from_value(_parse(text))


def load_field(text: str) -> Field:
    """Raises InvalidSchemaError for text that is no JSON, or no field."""
    return _field_from_value(_parse(text))


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


def _type_from_value(value: Any) -> DataType:
    if isinstance(value, str):
        return PrimitiveType.as_written(value)
    kind = value.get("type") if isinstance(value, dict) else None
    try:
        if kind == "struct":
            return StructType(_field_from_value(one) for one in _list(value["fields"]))
        if kind == "array":
            return ArrayType(_type_from_value(value["elementType"]), bool(value.get("containsNull", True)))
        if kind == "map":
            return MapType(
                _type_from_value(value["keyType"]),
                _type_from_value(value["valueType"]),
                bool(value.get("valueContainsNull", True)),
            )
    except KeyError as error:
        raise InvalidSchemaError(f"a {kind} type without {error} in the schema: {_excerpt(value)}") from error
    raise InvalidSchemaError(f"not a type of a Delta table: {_excerpt(value)}")


def _field_from_value(value: Any) -> Field:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "type" not in value:
        raise InvalidSchemaError(f"a field without a name or a type in the schema: {_excerpt(value)}")
    metadata = value.get("metadata")
    return Field(
        value["name"],
        _type_from_value(value["type"]),
        bool(value.get("nullable", True)),
        metadata if isinstance(metadata, dict) else None,
    )


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InvalidSchemaError(f"the fields of a struct are not a list: {_excerpt(value)}")
    return value


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"the schema is not JSON ({error}): {_excerpt(text)}") from error


def _excerpt(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
