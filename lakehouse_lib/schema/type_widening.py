"""Type widening: changes of a column's type that do not rewrite old files (PROTOCOL.md, Type Widening)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakehouse_lib.errors import InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.schema.nesting import members, with_replaced_types
from lakehouse_lib.schema.types import DataType, Field, PrimitiveType, Schema, StructType

#: The metadata key of a column that lists the changes of its type.
CHANGES = "delta.typeChanges"

_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
#: Decimal digits that hold every value of a type. The protocol now requires 10 for types up to integer and 20 for long;
#: earlier writers (delta-spark 3) required only these.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def is_widening(old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether a column may change from ``old`` to ``new`` without a rewrite of its files: ``new`` holds every value.

    These are the changes that the protocol lists (PROTOCOL.md, Type Widening), and changes of whole numbers to decimals
    with fewer digits than the protocol requires, which earlier writers made.
    """
    if old == new or new.type in _WIDER.get(old.type, ()):
        return True
    decimal = new.decimal
    if decimal is None:
        return False
    precision, scale = old.decimal or (_DIGITS.get(old.type, 39), 0)
    return decimal[1] >= scale and decimal[0] - decimal[1] >= precision - scale


def may_change(old: DataType, new: DataType) -> bool:
    """Whether the protocol allows a writer to change the type of a column from ``old`` to ``new``."""
    if not isinstance(old, PrimitiveType) or not isinstance(new, PrimitiveType) or old == new:
        return False
    if new.decimal is not None and old.type in _DIGITS:
        precision, scale = new.decimal
        return precision - scale >= (20 if old.type == "long" else 10)
    return is_widening(old, new)


def with_change(field: Field, new: PrimitiveType) -> Field:
    """The column with a wider type, and the change recorded in its metadata."""
    change = {"fromType": str(field.type), "toType": str(new)}
    return Field(field.name, new, field.nullable, {**field.metadata, CHANGES: [*_changes(field), change]})


def without_changes(schema: StructType) -> Schema:
    """The schema without recorded changes, at every depth, for a table whose files all have its types."""
    return Schema([_without_changes(field) for field in schema.fields])


def _without_changes(field: Field) -> Field:
    metadata = {key: value for key, value in field.metadata.items() if key != CHANGES}
    return Field(field.name, with_replaced_types(field.type, _without_changes), field.nullable, metadata)


def check_changes(fields: Iterable[Field], *, table: str, version: int | None = None) -> None:
    """Refuse columns with a recorded change to a type that does not hold every old value.

    Only the engine that changed the type knows how to convert the values of old files.

    Raises:
        UnsupportedFeatureError: names the column and the change.
    """
    for name, change in _recorded_changes(fields):
        types = _types(change)
        if types is None or not is_widening(*types):
            old, new = change.get("fromType"), change.get("toType")
            raise UnsupportedFeatureError(
                f"column {name!r} was changed from {old} to {new} (typeWidening); expected a type that holds every "
                f"value of {old}",
                table=table,
                version=version,
                hint="Leave the column out, or rewrite the table with the engine that changed it",
            )


def changes_of(field: Field) -> Iterator[tuple[str, PrimitiveType]]:
    """The recorded type changes of a column, its elements, keys and values: the old type's name and the new type.

    Members of structs have their own metadata, and are not included.
    """
    for change in _changes(field):
        types = _types(change)
        if types is not None:
            yield types[0].type, types[1]


def has_changes(fields: Iterable[Field]) -> bool:
    """Whether any column, at any depth, has a recorded change of its type."""
    return next(_recorded_changes(fields), None) is not None


def _recorded_changes(fields: Iterable[Field]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    pending = [(field.name, field) for field in fields]
    while pending:
        name, field = pending.pop()
        for change in _changes(field):
            yield name, change
        pending.extend((f"{name}.{inner.name}", inner) for inner in members(field.type))


def _changes(field: Field) -> Iterator[Mapping[str, Any]]:
    changes = field.metadata.get(CHANGES)
    for change in changes if isinstance(changes, list) else [] if changes is None else [changes]:
        yield change if isinstance(change, Mapping) else {}


def _types(change: Mapping[str, Any]) -> tuple[PrimitiveType, PrimitiveType] | None:
    """The old and the new type of a change; None if one of them is not a valid type."""
    try:
        return PrimitiveType(str(change.get("fromType"))), PrimitiveType(str(change.get("toType")))
    except InvalidSchemaError:
        return None
