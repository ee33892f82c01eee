"""Rename and drop columns of a table with column mapping: files keep their physical names, so no file changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakehouse_lib.engine.parquet.stored_schema import stored_schema
from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features import has_change_data_feed
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.alter.column_users import check_unused
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Field, Schema, check_feed_names, check_usable
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_rename(snapshot: Snapshot, column: str, name: str) -> Metadata:
    """The metadata with another name for a top-level column.

    Raises:
        UnsupportedFeatureError: the table has no column mapping.
        InvalidArgumentError: the column does not exist, partitions the table, or a constraint or a property names it.
        InvalidSchemaError: the new name is empty or taken.
    """
    table = snapshot.store.root
    field = snapshot.field(column)
    _check_mapped(snapshot, "renamed")
    if not isinstance(name, str) or not name:
        raise InvalidSchemaError(
            f"the new name of column {field.name!r} is {excerpt(name)}; expected text of at least 1 character",
            table=table,
            hint="Give a name",
            code="DELTA_INVALID_COLUMN_NAME",
        )
    twin = snapshot.schema.get(name)
    if twin is not None and twin.name != field.name:
        raise InvalidSchemaError(
            f"the column {twin.name!r} exists already",
            table=table,
            version=snapshot.version,
            hint="Use another name",
            code="DELTA_DUPLICATE_COLUMN",
        )
    check_unused(snapshot, field, "renamed")
    renamed = Field(name, field.type, field.nullable, field.metadata)
    schema = Schema([renamed if other.name == field.name else other for other in snapshot.schema.fields])
    check_usable(schema, table=table)
    if has_change_data_feed(snapshot.metadata):
        check_feed_names(schema, table=table)
    return snapshot.metadata.with_schema(schema.to_json())


def plan_drop(snapshot: Snapshot, columns: Sequence[str]) -> Metadata:
    """The metadata without some top-level columns.

    Raises:
        UnsupportedFeatureError: the table has no column mapping.
        InvalidArgumentError: a column does not exist, partitions the table, or a constraint or a property names it; or
            no column that files can store would be left.
    """
    table = snapshot.store.root
    names = snapshot.names_of(columns)
    if columns is None or not names:
        raise InvalidArgumentError(
            f"columns is {excerpt(columns)}; expected at least one name", table=table, hint='Write ["note"]'
        )
    _check_mapped(snapshot, "dropped")
    for name in names:
        check_unused(snapshot, snapshot.schema.field(name), "dropped")
    schema = Schema([field for field in snapshot.schema.fields if field.name not in names])
    if not stored_schema(replace(snapshot.layout, schema=schema)).names:
        raise InvalidArgumentError(
            f"without {', '.join(names)} the table has no column that data files can store; expected at least 1",
            table=table,
            version=snapshot.version,
            hint="Add another column first",
        )
    return snapshot.metadata.with_schema(schema.to_json())


def rename_column(
    snapshot: Snapshot, column: str, name: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Rename a top-level column. No file is read or written.

    Raises:
        DeltaError: as ``plan_rename``.
        MetadataChangedError: another writer changed the metadata first.
    """
    snapshot.check_writable()
    metadata = plan_rename(snapshot, column, name)
    parameters = {"oldColumnPath": snapshot.field(column).name, "newColumnPath": name}
    return commit_change(snapshot, "RENAME COLUMN", parameters, metadata=metadata, commit_properties=commit_properties)


def drop_columns(
    snapshot: Snapshot, columns: Sequence[str], *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Drop top-level columns. Existing files keep the values until they are rewritten.

    Raises:
        DeltaError: as ``plan_drop``.
        MetadataChangedError: another writer changed the metadata first.
    """
    snapshot.check_writable()
    metadata = plan_drop(snapshot, columns)
    parameters = {"columns": snapshot.names_of(columns)}
    return commit_change(snapshot, "DROP COLUMNS", parameters, metadata=metadata, commit_properties=commit_properties)


def _check_mapped(snapshot: Snapshot, verb: str) -> None:
    if snapshot.layout.mapping == "none":
        raise UnsupportedFeatureError(
            f"columns cannot be {verb}: the table has no column mapping (columnMapping)",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f'First call alter.set_table_properties({{"{COLUMN_MAPPING_MODE.key}": "name"}})',
        )
