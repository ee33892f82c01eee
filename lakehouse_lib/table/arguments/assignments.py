"""The assignments of an update or a merge: values by column. Names of columns may be written as in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.snapshot import Snapshot

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Value


def assigned_values(
    assignments: Mapping[Any, Any],
    snapshot: Snapshot,
    value: Callable[[Any, Field], Value],
    *,
    schema: Schema | None = None,
    alias: str | None = None,
) -> dict[str, Value]:
    """The values by column. Each key is the name of a column as the schema spells it.

    Args:
        assignments: the assignments by column, as the user spells them.
        value: a function that returns the value for an assignment to a column.
        schema: the columns; None: the columns of the table.
        alias: an alias of the table that names may have as a prefix.

    Raises:
        InvalidArgumentError: a column does not exist, or is assigned twice.
    """
    values: dict[str, Value] = {}
    for name, assignment in assignments.items():
        column = column_named(name, schema or snapshot.schema, alias) or snapshot.field(name)
        if column.name in values:
            raise InvalidArgumentError(
                f"column {column.name!r} is assigned twice",
                table=snapshot.store.root,
                version=snapshot.version,
                hint="Names of columns are case-insensitive; assign each column once",
            )
        values[column.name] = value(assignment, column)
    return values


def parsed_assignments(updates: Mapping[Any, Any], snapshot: Snapshot) -> dict[str, Value]:
    """The values of SQL expressions by column.

    Raises:
        InvalidArgumentError: a column does not exist, or is assigned twice.
        InvalidPredicateError: an expression is not valid.
        SchemaMismatchError: the type of an expression does not fit its column.
    """
    from lakehouse_lib.expressions import parse_value

    table = snapshot.store.root
    return assigned_values(
        updates, snapshot, lambda sql, column: parse_value(sql, column, snapshot.schema, table=table)
    )


def check_assignments(updates: object, new_values: object, *, table: str) -> None:
    """Check that exactly one of the two arguments of an update is given, and that it is a mapping.

    Raises:
        InvalidArgumentError: none or both are given, or the argument is not a mapping.
    """
    if (updates is None) == (new_values is None):
        given_names = "updates and new_values are" if updates is not None else "neither updates nor new_values is"
        raise InvalidArgumentError(
            f"{given_names} given; expected one of them",
            table=table,
            hint="Give SQL expressions as updates, or Python values as new_values",
        )
    name, assignments = ("new_values", new_values) if updates is None else ("updates", updates)
    if not isinstance(assignments, Mapping):
        raise InvalidArgumentError(
            f"{name} is {excerpt(assignments)}; expected a mapping",
            table=table,
            hint='Write {"column": "expression"}',
        )


def check_type_mismatch(error_on_type_mismatch: object, *, table: str) -> None:
    """Refuse ``error_on_type_mismatch=False``: values that do not fit their column would silently become NULL."""
    if error_on_type_mismatch is not True:
        raise InvalidArgumentError(
            f"error_on_type_mismatch is {excerpt(error_on_type_mismatch)}; expected True",
            table=table,
            hint="To assign NULL for values that do not fit, use CASE WHEN ... THEN ... END",
        )


def update_values(
    updates: Mapping[str, str] | None, new_values: Mapping[str, Any] | None, snapshot: Snapshot
) -> dict[str, Value]:
    """The values of an update by column. Exactly one of the mappings is given."""
    from lakehouse_lib.expressions import value_of

    if updates is not None:
        return parsed_assignments(updates, snapshot)
    table = snapshot.store.root
    return assigned_values(new_values or {}, snapshot, lambda value, column: value_of(value, column, table=table))


def column_named(name: Any, schema: Schema, alias: str | None = None) -> Field | None:
    """The column with a name; None: the schema does not have this column.

    Args:
        name: the name of the column, or its name in SQL: in backticks, or after an alias as in ``t.x``.
        alias: the alias that a name in SQL may have.
    """
    from lakehouse_lib.expressions.parsing.sql import name_parts

    if not isinstance(name, str):
        return None
    column = schema.get(name)
    if column is not None:
        return column
    parts = name_parts(name)
    if len(parts) == 2 and alias is not None and parts[0].lower() == alias.lower():
        parts = parts[1:]
    return schema.get(parts[0]) if len(parts) == 1 else None
