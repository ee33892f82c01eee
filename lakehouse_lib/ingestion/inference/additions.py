"""The rules for columns, and members of structs, that files add to a table."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.schema.usable import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, all_names, is_storable

#: The largest number of columns and members that a batch adds. Keys of JSON that are values, such as ids, would add a
#: column or a member each.
MOST_COLUMNS = 1000
_FEED_NAMES = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def new_member(field: pa.Field, names: Iterable[str]) -> pa.Field | None:
    """A field of a file as a nullable member of a struct, in a type that tables have; None: it cannot be added.

    Args:
        names: the names of the other members of the struct.
    """
    own = field.name.lower()
    if any(name.lower() == own for name in names):
        return None
    try:
        member = Schema([Field.from_arrow(field)])
    except InvalidSchemaError:
        return None
    if not all(is_storable(path[-1]) for path in all_names(member)):
        return None
    return nullable(member.to_arrow()).field(0)


def new_column(field: pa.Field, names: Iterable[str], taken: frozenset[str]) -> pa.Field | None:
    """As ``new_member``, for a column of the table.

    Args:
        names: the names of the other columns.
        taken: names, in lower case, that a new column must not have.
    """
    own = field.name.lower()
    if own in taken or own in _FEED_NAMES:
        return None
    try:
        quarantine_schema(pa.schema([field]))
    except InvalidSchemaError:
        return None
    return new_member(field, names)


def count_fields(schema: pa.Schema) -> int:
    """The number of columns, and of members of their structs at any depth."""
    return sum(1 for _ in all_names(Schema.from_arrow(schema)))
