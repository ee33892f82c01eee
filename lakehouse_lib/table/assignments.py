"""The assignments of an update or a merge: values by column. Users may write the names of columns as in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import InvalidArgumentError
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
    """The values by column. A column is named as in the schema, whatever the user's spelling.

    Args:
        value: returns the value for an assignment to a column.
        schema: the columns; default those of the table.
        alias: the alias of the table, which may stand before a name.

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


def column_named(name: Any, schema: Schema, alias: str | None = None) -> Field | None:
    """The column that a name means; None: there is no such column.

    The name is the column's own name, or SQL for it: in backticks, or behind an alias as in ``t.x``.

    Args:
        alias: the alias that may stand before a name in SQL.
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
