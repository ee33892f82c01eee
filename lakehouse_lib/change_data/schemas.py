"""The schema of a feed: the end version's, with what says how each row changed."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, SchemaMismatchError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import (
    FEED_COLUMNS,
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    column_mapping,
)
from lakehouse_lib.schema.column_mapping import Mode
from lakehouse_lib.schema.widening import is_widening
from lakehouse_lib.snapshot import Snapshot

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = FEED_COLUMNS


def feed_schema(end: Snapshot) -> Schema:
    """The table's columns at the end version, then the three of a change feed.

    Raises:
        InvalidArgumentError: the table has a column of such a name itself.
    """
    own = [
        Field(CHANGE_TYPE, "string"),
        Field(COMMIT_VERSION, "long"),
        Field(COMMIT_TIMESTAMP, "timestamp"),
    ]
    taken = [column.name for column in own if end.schema.get(column.name) is not None]
    if taken:
        raise InvalidArgumentError(
            f"the table has a column {taken[0]} of its own, so its changes cannot be told apart from its rows",
            table=end.store.root,
            version=end.version,
            hint="Rename the column",
        )
    return Schema([*end.schema.fields, *own])


def check_readable_as(end: Snapshot, metadata: Metadata, version: int) -> None:
    """Refuse rows of another schema that the end version's schema cannot show.

    New, dropped, reordered and renamed columns can be shown: columns are found by where they are stored. A column
    whose values would not fit its type at the end cannot.

    Raises:
        SchemaMismatchError: names the columns.
        LogCorruptedError: the table was partitioned by what was no column of it.
    """
    then = Schema.from_json(metadata.schema_string)
    unknown = [name for name in metadata.partition_columns if name not in then]
    if unknown:
        raise LogCorruptedError(
            f"the table was partitioned by {excerpt(unknown[0])}, which was no column of it",
            table=end.store.root,
            version=version,
            hint="Restore the commit with the metaData action of then from a backup, or ask for later versions",
        )
    clashes = list(_clashes(then, end.schema, _mode(metadata, end), end.layout.mapping, ""))
    if clashes:
        raise SchemaMismatchError(
            f"changes of version {version} do not fit the schema of version {end.version}: {'; '.join(clashes)}",
            table=end.store.root,
            version=version,
            hint="Read the versions before and after the change of schema apart (ending_version, starting_version)",
        )


def partition_columns_as(end: Snapshot, metadata: Metadata) -> tuple[str, ...]:
    """The partition columns of another metadata under the names they have at the end version."""
    then = Schema.from_json(metadata.schema_string)
    mode = _mode(metadata, end)
    stored = {end.layout.physical_name(field).lower(): field.name for field in end.schema.fields}
    physical = [column_mapping.physical_name(then.field(name), mode).lower() for name in metadata.partition_columns]
    return tuple(stored[name] for name in physical if name in stored)


def _mode(metadata: Metadata, end: Snapshot) -> Mode:
    return "none" if end.layout.mapping == "none" else COLUMN_MAPPING_MODE.of(metadata.configuration)


def _clashes(then: StructType, now: StructType, old: Mode, new: Mode, above: str) -> Iterator[str]:
    stored = {column_mapping.physical_name(field, old).lower(): field for field in then.fields}
    for field in now.fields:
        before = stored.get(column_mapping.physical_name(field, new).lower())
        if before is not None:
            yield from _type_clashes(before.type, field.type, old, new, above + field.name)


def _type_clashes(then: DataType, now: DataType, old: Mode, new: Mode, name: str) -> Iterator[str]:
    if isinstance(then, StructType) and isinstance(now, StructType):
        yield from _clashes(then, now, old, new, f"{name}.")
    elif isinstance(then, ArrayType) and isinstance(now, ArrayType):
        yield from _type_clashes(then.element_type, now.element_type, old, new, f"{name}.element")
    elif isinstance(then, MapType) and isinstance(now, MapType):
        yield from _type_clashes(then.key_type, now.key_type, old, new, f"{name}.key")
        yield from _type_clashes(then.value_type, now.value_type, old, new, f"{name}.value")
    elif then != now and not _widens(then, now):
        yield f"{name} was {then} and is {now}"


def _widens(then: DataType, now: DataType) -> bool:
    if not isinstance(then, PrimitiveType) or not isinstance(now, PrimitiveType):
        return False
    return then.type == "void" or is_widening(then, now)
