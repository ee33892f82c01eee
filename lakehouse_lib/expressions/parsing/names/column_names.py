"""Resolution of a predicate's column names against a schema."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Column
from lakehouse_lib.json_text import first_texts
from lakehouse_lib.schema import DataType, Schema, StructType


def resolve(parts: Sequence[str], schema: Schema, owner: str = "") -> Column:
    """The column ``a``, or the member ``a.b`` of a struct, regardless of case, as the schema spells it.

    Args:
        owner: the side of a merge (``target`` or ``source``) that has the schema, for the error; "": no merge.

    Raises:
        InvalidPredicateError: the schema has no such column; the hint has similar names.
    """
    path: list[str] = []
    within: DataType = schema
    for part in parts:
        field = within.get(part) if isinstance(within, StructType) else None
        if field is None:
            raise _unknown(parts, path, within, owner)
        path.append(field.name)
        within = field.type
    return Column(tuple(path), within)


def _unknown(parts: Sequence[str], path: list[str], within: DataType, owner: str) -> InvalidPredicateError:
    name = ".".join(parts)
    message = f"the {owner} has no column {name!r}" if owner else f"the column {name!r} does not exist"
    if not isinstance(within, StructType):
        return InvalidPredicateError(
            message,
            hint=f"{'.'.join(path)!r} is of type {within}, which has no members",
            code="DELTA_PREDICATE_COLUMN_NOT_FOUND",
        )
    by_lower = {column_name.lower(): column_name for column_name in within.names}
    close = [by_lower[match] for match in difflib.get_close_matches(parts[len(path)].lower(), by_lower, n=3)]
    names = close or within.names
    listed = first_texts([".".join([*path, column_name]) for column_name in names], 20)
    hint = f"Did you mean {listed}?" if close else f"The columns are {listed}" if names else "It has no columns"
    return InvalidPredicateError(message, hint=hint, code="DELTA_PREDICATE_COLUMN_NOT_FOUND")
