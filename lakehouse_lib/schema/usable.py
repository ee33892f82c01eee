"""Whether this library and Parquet can hold what a schema says."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema.types import ArrayType, DataType, MapType, StructType

#: Characters that Parquet writers refuse in a column name, so a table without column mapping cannot have them.
FORBIDDEN_IN_NAMES = frozenset(" ,;{}()\n\t=")


def check_names(schema: StructType, *, table: str | None = None) -> None:
    """Refuses names that Parquet cannot hold, at every depth; for tables without column mapping.

    Raises:
        InvalidSchemaError: lists every such name.
    """
    bad = [name for name in _all_names(schema, "") if not name or FORBIDDEN_IN_NAMES & set(name.rpartition("\0")[2])]
    if bad:
        raise InvalidSchemaError(
            f"column names that Parquet cannot hold: {', '.join(repr(one.replace(chr(0), '.')) for one in bad)}",
            table=table,
            hint="Rename them without spaces and without any of ,;{}()= or line breaks.",
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
            raise InvalidSchemaError(error.message, table=table, hint=error.hint) from error


def has_variant(kind: DataType) -> bool:
    """Whether there is a variant in it, at any depth."""
    if isinstance(kind, StructType):
        return any(has_variant(one.type) for one in kind.fields)
    if isinstance(kind, ArrayType):
        return has_variant(kind.element_type)
    if isinstance(kind, MapType):
        return has_variant(kind.key_type) or has_variant(kind.value_type)
    return kind.type == "variant"


def _all_names(kind: DataType, above: str) -> Iterator[str]:
    # \0 separates the parts, because a name may hold a dot.
    if isinstance(kind, StructType):
        for one in kind.fields:
            yield above + one.name
            yield from _all_names(one.type, f"{above}{one.name}\0")
    elif isinstance(kind, ArrayType):
        yield from _all_names(kind.element_type, above)
    elif isinstance(kind, MapType):
        yield from _all_names(kind.key_type, above)
        yield from _all_names(kind.value_type, above)
