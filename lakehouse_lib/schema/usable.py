"""Checks that Parquet and this library can store the columns of a schema."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema.nesting import all_types, members
from lakehouse_lib.schema.types import DataType, PrimitiveType, StructType

#: Characters that a column name cannot have in a table without column mapping: other programs cannot parse folder names
#: or lines of text with them, and NUL ends a name in Arrow's C interface. delta-spark refuses " ,;{}()" in new names,
#: too, but reads them.
FORBIDDEN_IN_NAMES = frozenset("=\n\t\0")
#: Columns that a change data feed adds to those of the table.
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"


def check_names(schema: StructType, current_schema: StructType | None = None, *, table: str | None = None) -> None:
    """Refuse names that not every program can read, at every depth; for tables without column mapping.

    Args:
        current_schema: the schema of an existing table. Its names are not checked, because another engine wrote them.

    Raises:
        InvalidSchemaError: lists every such name.
    """
    current_paths = set() if current_schema is None else set(all_names(current_schema))
    invalid_names = [
        ".".join(path) for path in all_names(schema) if path not in current_paths and not is_storable(path[-1])
    ]
    if invalid_names:
        raise InvalidSchemaError(
            f"columns cannot have these names: {', '.join(repr(name) for name in invalid_names)}",
            table=table,
            hint="Rename them without =, tabs, line breaks and NUL, or create the table with "
            "delta.columnMapping.mode = name",
            code="DELTA_INVALID_COLUMN_NAME",
        )


def is_storable(name: str) -> bool:
    """Whether every program can read a column of that name: not empty, no forbidden character, valid UTF-8."""
    return (
        bool(name)
        and not FORBIDDEN_IN_NAMES & set(name)
        and not any("\ud800" <= character <= "\udfff" for character in name)
    )


def check_feed_names(schema: StructType, *, table: str | None = None) -> None:
    """Refuse columns with the names of the change data feed's columns; for tables that have a change data feed.

    Raises:
        InvalidSchemaError: lists every such name.
    """
    conflicts = [
        field.name for field in schema.fields if field.name.lower() in (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
    ]
    if conflicts:
        raise InvalidSchemaError(
            f"columns are named {', '.join(map(repr, conflicts))}; expected none of the change data feed's names",
            table=table,
            hint="Rename the columns, or the change data feed cannot be read",
            code="DELTA_INVALID_COLUMN_NAME",
        )


def check_usable(schema: StructType, *, table: str | None = None) -> None:
    """Refuse columns that this library cannot write: unknown types, NOT NULL void, and invalid names.

    Raises:
        InvalidSchemaError: names the first such column.
    """
    for path in all_names(schema):
        if any("\ud800" <= character <= "\udfff" for character in path[-1]):
            raise InvalidSchemaError(
                f"the column name {path[-1]!a} is not valid Unicode text",
                table=table,
                hint="Rename the column",
                code="DELTA_INVALID_COLUMN_NAME",
            )
    check_readable(schema, table=table)


def check_readable(schema: StructType, *, table: str | None = None) -> None:
    """Refuse types that this library cannot read: unknown types, such as an interval or a geometry, and NOT NULL void.

    The other columns of a table with such a type can be read.

    Raises:
        InvalidSchemaError: names the first such column.
    """
    for field in schema.fields:
        try:
            field.to_arrow()
        except InvalidSchemaError as error:
            raise InvalidSchemaError(error.message, table=table, hint=error.hint, code=error.code) from error


def has_variant(kind: DataType) -> bool:
    """Whether a type contains a variant, at any depth."""
    return any(isinstance(part, PrimitiveType) and part.type == "variant" for part in all_types(kind))


def all_names(kind: DataType, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all columns and members within a type, by their names."""
    for member in members(kind):
        yield (*above, member.name)
        yield from all_names(member.type, (*above, member.name))
