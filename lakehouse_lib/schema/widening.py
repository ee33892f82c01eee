"""Type widening: the changes of a column's type that old files need no rewriting for (PROTOCOL.md, Type Widening)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakehouse_lib.errors import InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.schema.types import ArrayType, DataType, Field, MapType, PrimitiveType, StructType

CHANGES = "delta.typeChanges"

_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def is_widening(old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether the protocol lets a column change from ``old`` to ``new`` while its files stay."""
    if old == new or new.type in _WIDER.get(old.type, ()):
        return True
    wide = new.decimal
    if wide is None:
        return False
    precision, scale = old.decimal or (_DIGITS.get(old.type, 39), 0)
    return wide[1] >= scale and wide[0] - wide[1] >= precision - scale


def check_changes(fields: Iterable[Field], *, table: str, version: int | None = None) -> None:
    """Refuse columns whose recorded changes of type are none that the protocol knows: their old files mean something
    that only the writer can tell.

    Raises:
        UnsupportedFeatureError: names the column and the change.
    """
    for name, change in _recorded(fields):
        old, new = change.get("fromType"), change.get("toType")
        try:
            known = is_widening(PrimitiveType(str(old)), PrimitiveType(str(new)))
        except InvalidSchemaError:
            known = False
        if not known:
            raise UnsupportedFeatureError(
                f"column {name!r} was changed from {old} to {new} (typeWidening), which the protocol does not know",
                table=table,
                version=version,
                hint="Leave the column out, or rewrite the table with the engine that changed it",
            )


def has_changes(fields: Iterable[Field]) -> bool:
    """Whether any column, at any depth, has changed its type."""
    return next(_recorded(fields), None) is not None


def _recorded(fields: Iterable[Field]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    pending = [(one.name, one) for one in fields]
    while pending:
        name, one = pending.pop()
        changes = one.metadata.get(CHANGES)
        for change in changes if isinstance(changes, list) else [] if changes is None else [changes]:
            yield name, change if isinstance(change, Mapping) else {}
        pending.extend((f"{name}.{inner.name}", inner) for inner in _members(one.type))


def _members(kind: DataType) -> Iterator[Field]:
    if isinstance(kind, StructType):
        yield from kind.fields
    elif isinstance(kind, ArrayType):
        yield from _members(kind.element_type)
    elif isinstance(kind, MapType):
        yield from _members(kind.key_type)
        yield from _members(kind.value_type)
