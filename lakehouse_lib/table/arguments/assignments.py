"""The assignments of an update or a merge: values by column. Names of columns may be written as in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.schema import DataType, Field, Schema, StructType
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
    old_values: tuple[str, ...] | None = (),
) -> dict[str, Value]:
    """The values by column. Each key is the name of a column as the schema spells it.

    The value of a struct column with assignments to its members has the old values of its other members.

    Args:
        assignments: the assignments by column, or by member of a struct column, as the user spells them.
        value: a function that returns the value for an assignment to a column.
        schema: the columns; None: the columns of the table.
        alias: an alias of the table that names may have as a prefix.
        old_values: the names before that of a column in the path of its old value; None: there are no old values, so
            members cannot be assigned.

    Raises:
        InvalidArgumentError: a column does not exist, or a column or a part of it is assigned twice.
    """
    from lakehouse_lib.expressions import with_members
    from lakehouse_lib.expressions.ir import Column

    schema = schema or snapshot.schema
    values: dict[str, Value] = {}
    members: dict[str, dict[tuple[str, ...], Value]] = {}
    for name, assignment in assignments.items():
        column = column_named(name, schema, alias)
        path = None if column is not None or old_values is None else _member_path(name, schema, alias)
        if column is None and path is None:
            column = snapshot.field(name)
        if path is None:
            assert column is not None
            _refuse_twice(column.name, (), values, members, snapshot)
            values[column.name] = value(assignment, column)
            continue
        parts, member = path
        _refuse_twice(parts[0], parts[1:], values, members, snapshot)
        members.setdefault(parts[0], {})[parts[1:]] = value(assignment, member)
    for name, of_column in members.items():
        struct = Column((*(old_values or ()), name), schema.field(name).type)
        values[name] = with_members(struct, of_column, snapshot.store.root)
    return values


def _member_path(name: Any, schema: Schema, alias: str | None) -> tuple[tuple[str, ...], Field] | None:
    """The path of a member of a struct column, as the schema spells it, and the member; None: it does not exist."""
    from lakehouse_lib.expressions.parsing.sql import name_parts

    parts = name_parts(name) if isinstance(name, str) else []
    if len(parts) > 2 and alias is not None and parts[0].lower() == alias.lower() and parts[0] not in schema:
        parts = parts[1:]
    path: list[str] = []
    field: Field | None = None
    within: DataType = schema
    for part in parts:
        field = within.get(part) if isinstance(within, StructType) else None
        if field is None:
            return None
        path.append(field.name)
        within = field.type
    return (tuple(path), field) if field is not None and len(path) > 1 else None


def _refuse_twice(
    column: str,
    member: tuple[str, ...],
    values: Mapping[str, Value],
    members: Mapping[str, Mapping[tuple[str, ...], Value]],
    snapshot: Snapshot,
) -> None:
    others = members.get(column, {})
    overlaps = any(path[: len(member)] == member[: len(path)] for path in others)
    if column in values or overlaps:
        raise InvalidArgumentError(
            f"column {'.'.join((column, *member))!r} is assigned twice",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Names of columns are case-insensitive; assign each column, or each of its members, once",
        )


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
