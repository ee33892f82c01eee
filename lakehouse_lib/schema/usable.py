"""Whether this library and Parquet can hold what a schema says."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema.nesting import all_types, members
from lakehouse_lib.schema.types import DataType, PrimitiveType, StructType

#: Characters that Parquet writers refuse in a column name, so a table without column mapping cannot have them; and NUL,
#: which ends a name where Arrow hands columns to another program.
FORBIDDEN_IN_NAMES = frozenset(" ,;{}()\n\t=\0")
#: Columns that a change data feed adds to the table's own.
FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def check_names(schema: StructType, known: StructType | None = None, *, table: str | None = None) -> None:
    """Refuses names that Parquet cannot hold, at every depth; for tables without column mapping.

    Args:
        known: names of these columns are let pass: a table of somebody else's has them already.

    Raises:
        InvalidSchemaError: lists every such name.
    """
    there = set() if known is None else set(_all_names(known, ()))
    bad = [".".join(path) for path in _all_names(schema, ()) if path not in there and not is_storable(path[-1])]
    if bad:
        raise InvalidSchemaError(
            f"column names that Parquet cannot hold: {', '.join(repr(one) for one in bad)}",
            table=table,
            hint="Rename them without spaces and without any of ,;{}()=, line breaks or NUL.",
            code="DELTA_INVALID_COLUMN_NAME",
        )


def is_storable(name: str) -> bool:
    """Whether Parquet can store a column or struct member of that name: not empty, no NUL, valid UTF-8."""
    return bool(name) and not FORBIDDEN_IN_NAMES & set(name) and not any("\ud800" <= one <= "\udfff" for one in name)


def check_feed_names(schema: StructType, *, table: str | None = None) -> None:
    """Refuses columns named like those that a change data feed adds; for tables that have one.

    Raises:
        InvalidSchemaError: lists every such name.
    """
    taken = [one.name for one in schema.fields if one.name.lower() in FEED_COLUMNS]
    if taken:
        raise InvalidSchemaError(
            f"the table has a change data feed, whose own columns are named {', '.join(map(repr, taken))}",
            table=table,
            hint="Rename them: with such columns no change could be read.",
            code="DELTA_INVALID_COLUMN_NAME",
        )


def check_usable(schema: StructType, *, table: str | None = None) -> None:
    """Refuses types that no new table can have here: those without values, and variants, which are only read.

    Raises:
        InvalidSchemaError: names the first such column.
    """
    check_readable(schema, table=table)
    for one in schema.fields:
        if has_variant(one.type):
            raise InvalidSchemaError(
                f"column {one.name!r} has the type 'variant', which this library reads and does not write",
                table=table,
                hint="Write the value as a string, or with an engine that writes variants",
                code="DELTA_UNSUPPORTED_TYPE",
            )


def check_readable(schema: StructType, *, table: str | None = None) -> None:
    """Refuses types that this library has no values for (an interval): tables that have them can be described, and
    their other columns read.

    Raises:
        InvalidSchemaError: names the first such column.
    """
    for one in schema.fields:
        try:
            one.to_arrow()
        except InvalidSchemaError as error:
            raise InvalidSchemaError(error.message, table=table, hint=error.hint, code=error.code) from error


def has_variant(kind: DataType) -> bool:
    """Whether there is a variant in it, at any depth."""
    return any(isinstance(part, PrimitiveType) and part.type == "variant" for part in all_types(kind))


def _all_names(kind: DataType, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for member in members(kind):
        yield (*above, member.name)
        yield from _all_names(member.type, (*above, member.name))
