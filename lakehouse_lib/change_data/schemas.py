"""The schema of a change feed: the columns of the last version, and the columns that describe the change."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, SchemaMismatchError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    all_types,
)
from lakehouse_lib.schema.column_mapping import Mode, physical_name
from lakehouse_lib.schema.type_widening import is_widening
from lakehouse_lib.snapshot import Snapshot


def feed_schema(end: Snapshot) -> Schema:
    """The table's columns at the last version, then the three columns of a change feed.

    Raises:
        InvalidArgumentError: the table has a column with the name of one of these three columns.
    """
    feed_columns = [
        Field(CHANGE_TYPE, "string"),
        Field(COMMIT_VERSION, "long"),
        Field(COMMIT_TIMESTAMP, "timestamp"),
    ]
    conflicts = [column.name for column in feed_columns if end.schema.get(column.name) is not None]
    if conflicts:
        raise InvalidArgumentError(
            f"the table has a column {conflicts[0]}, which is also a column of the change data feed",
            table=end.store.root,
            version=end.version,
            hint="Rename the column",
        )
    return Schema([*end.schema.fields, *feed_columns])


def check_readable_as(end: Snapshot, metadata: Metadata, version: int) -> None:
    """Check that rows with another schema can be read with the schema of the last version.

    Columns may have been added, dropped, reordered or renamed, because columns are found by their physical names. The
    values of a column must fit its type in the last version.

    Args:
        metadata: the metadata of the rows.
        version: the version of the rows, for errors.

    Raises:
        SchemaMismatchError: some columns do not fit; the message names them.
        LogCorruptedError: a partition column in ``metadata`` is not a column of its schema.
    """
    old_schema = Schema.from_json(metadata.schema_string)
    unknown = [name for name in metadata.partition_columns if name not in old_schema]
    if unknown:
        raise LogCorruptedError(
            f"the table was partitioned by {excerpt(unknown[0])}, which was not a column of the table",
            table=end.store.root,
            version=version,
            hint="Restore the commit with its metaData action from a backup, or read later versions",
        )
    if end.layout.mapping == "none":
        _check_stored_names(end, metadata, old_schema, version)
    clashes = list(_clashes(old_schema, end.schema, _mode(metadata, end), end.layout.mapping, ""))
    if clashes:
        raise SchemaMismatchError(
            f"changes of version {version} do not fit the schema of version {end.version}: {'; '.join(clashes)}",
            table=end.store.root,
            version=version,
            hint="Read the versions before and after the schema change separately (ending_version, starting_version)",
        )


def _check_stored_names(end: Snapshot, metadata: Metadata, old_schema: Schema, version: int) -> None:
    """Refuse changes in files with physical column names, if the last version has no column mapping any more."""
    mode = COLUMN_MAPPING_MODE.of(metadata.configuration, end.store.root)
    structs = [kind for kind in all_types(old_schema) if isinstance(kind, StructType)] if mode != "none" else []
    renamed = [field for struct in structs for field in struct.fields if physical_name(field, mode) != field.name]
    if renamed and COLUMN_MAPPING_MODE.of(end.configuration, end.store.root) == "none":
        raise SchemaMismatchError(
            f"changes of version {version} have other names in their files, such as "
            f"{excerpt(physical_name(renamed[0], mode))} for {excerpt(renamed[0].name)}, because the table had column "
            "mapping",
            table=end.store.root,
            version=version,
            hint="Read the versions before and after the mapping was removed separately (ending_version, "
            "starting_version)",
        )


def partition_columns_as(end: Snapshot, metadata: Metadata) -> tuple[str, ...]:
    """The partition columns of ``metadata``, by their names in the last version; dropped columns are left out."""
    old_schema = Schema.from_json(metadata.schema_string)
    mode = _mode(metadata, end)
    stored = {end.layout.physical_name(field).lower(): field.name for field in end.schema.fields}
    physical = [physical_name(old_schema.field(name), mode).lower() for name in metadata.partition_columns]
    return tuple(stored[name] for name in physical if name in stored)


def _mode(metadata: Metadata, end: Snapshot) -> Mode:
    return "none" if end.layout.mapping == "none" else COLUMN_MAPPING_MODE.of(metadata.configuration)


def _clashes(
    old_struct: StructType, new_struct: StructType, old_mode: Mode, new_mode: Mode, above: str
) -> Iterator[str]:
    stored = {physical_name(field, old_mode).lower(): field for field in old_struct.fields}
    for field in new_struct.fields:
        old_field = stored.get(physical_name(field, new_mode).lower())
        if old_field is not None:
            yield from _type_clashes(old_field.type, field.type, old_mode, new_mode, above + field.name)


def _type_clashes(old: DataType, new: DataType, old_mode: Mode, new_mode: Mode, name: str) -> Iterator[str]:
    if isinstance(old, StructType) and isinstance(new, StructType):
        yield from _clashes(old, new, old_mode, new_mode, f"{name}.")
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _type_clashes(old.element_type, new.element_type, old_mode, new_mode, f"{name}.element")
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _type_clashes(old.key_type, new.key_type, old_mode, new_mode, f"{name}.key")
        yield from _type_clashes(old.value_type, new.value_type, old_mode, new_mode, f"{name}.value")
    elif old != new and not _widens(old, new):
        yield f"{name} was {old} and is {new}"


def _widens(old: DataType, new: DataType) -> bool:
    if not isinstance(old, PrimitiveType) or not isinstance(new, PrimitiveType):
        return False
    return old.type == "void" or is_widening(old, new)
