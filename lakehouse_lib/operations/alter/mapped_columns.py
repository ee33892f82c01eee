"""Rename and drop columns of a table with column mapping. Data files have physical names, so no file changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from lakehouse_lib.engine.parquet.stored_schema import column_names
from lakehouse_lib.errors import DuplicateColumnError, InvalidArgumentError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features import has_change_data_feed
from lakehouse_lib.features.file_layout.clustering import columns_text
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.alter.column_place import path_text, place_of
from lakehouse_lib.operations.alter.column_users import check_unused
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Field, check_feed_names, check_usable
from lakehouse_lib.schema.nested_fields import fields_of, with_fields_of
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_rename(snapshot: Snapshot, column: str, name: str) -> Metadata:
    """The metadata in which a column, or a member of a struct, has a new name.

    Args:
        name: the new name, without the path of a member.

    Raises:
        UnsupportedFeatureError: the table has no column mapping.
        InvalidArgumentError: the column does not exist, is a partition column, or a constraint or a property names it.
        InvalidSchemaError: the new name is empty, not valid, or the name of another column.
    """
    table = snapshot.store.root
    place = place_of(snapshot, column)
    field = place.field
    _check_mapped(snapshot, "renamed")
    if not isinstance(name, str) or not name:
        raise InvalidSchemaError(
            f"the new name of column {place.name!r} is {excerpt(name)}; expected text of at least 1 character",
            table=table,
            hint="Give a name",
            code="DELTA_INVALID_COLUMN_NAME",
        )
    duplicates = [other for other in place.siblings if other.name.lower() == name.lower() and other is not field]
    if duplicates:
        raise DuplicateColumnError(
            f"the column {path_text((*place.path[:-1], duplicates[0].name))!r} exists already",
            table=table,
            version=snapshot.version,
            hint="Use another name",
        )
    check_unused(snapshot, place, "renamed")
    schema = place.replaced(Field(name, field.type, field.nullable, field.metadata))
    check_usable(schema, table=table)
    if has_change_data_feed(snapshot.metadata):
        check_feed_names(schema, table=table)
    return snapshot.metadata.with_schema(schema.to_json())


def plan_drop(snapshot: Snapshot, columns: Sequence[str]) -> Metadata:
    """The metadata without some columns, or members of structs.

    Raises:
        UnsupportedFeatureError: the table has no column mapping.
        InvalidArgumentError: a column does not exist, is a partition column or a clustering column, or a constraint or
            a property names it; a struct would have no member left, or the table no column that data files can store.
    """
    table = snapshot.store.root
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise InvalidArgumentError(
            f"columns is {excerpt(columns)}; expected a list of names, with at least one name",
            table=table,
            hint='Write ["note"]',
        )
    _check_mapped(snapshot, "dropped")
    places = [place_of(snapshot, column) for column in columns]
    paths = [place.path for place in places]
    if any(path[: len(other)] == other for path, other in permutations(paths, 2)):
        raise InvalidArgumentError(
            f"columns names a column twice: {', '.join(place.name for place in places)}",
            table=table,
            version=snapshot.version,
            hint="Name each column once, and no members of a dropped column",
        )
    schema = snapshot.schema
    for place in places:
        check_unused(snapshot, place, "dropped")
        if any(path[: len(place.path)] == place.path for path in snapshot.clustering_columns):
            raise InvalidArgumentError(
                f"the column {place.name!r} cannot be dropped: the table is clustered by "
                f"{columns_text(snapshot.clustering_columns)}",
                table=table,
                version=snapshot.version,
                hint="Change the clustering columns first with alter.cluster_by",
                code="DELTA_COLUMN_IN_USE",
            )
        remaining_fields = [field for field in fields_of(schema, place.path[:-1]) if field.name != place.field.name]
        if not remaining_fields and len(place.path) > 1:
            raise InvalidArgumentError(
                f"without {place.name}, its struct has no member left; expected at least 1",
                table=table,
                version=snapshot.version,
                hint="Drop the whole column",
            )
        schema = with_fields_of(schema, place.path[:-1], remaining_fields)
    if not column_names(replace(snapshot.layout, schema=schema)):
        raise InvalidArgumentError(
            f"without {', '.join(place.name for place in places)} the table has no column that data files can store; "
            "expected at least 1",
            table=table,
            version=snapshot.version,
            hint="Add another column first",
        )
    return snapshot.metadata.with_schema(schema.to_json())


def rename_column(
    snapshot: Snapshot, column: str, name: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Rename a column or a member. No data file is read or written.

    Raises:
        DeltaError: as ``plan_rename``.
        MetadataChangedError: a winning commit changed the metadata.
    """
    snapshot.check_writable()
    metadata = plan_rename(snapshot, column, name)
    place = place_of(snapshot, column)
    parameters = {"oldColumnPath": place.name, "newColumnPath": path_text((*place.path[:-1], name))}
    return commit_change(snapshot, "RENAME COLUMN", parameters, metadata=metadata, commit_properties=commit_properties)


def drop_columns(
    snapshot: Snapshot, columns: Sequence[str], *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Drop columns and members. Existing files keep the values until the files are rewritten.

    Raises:
        DeltaError: as ``plan_drop``.
        MetadataChangedError: a winning commit changed the metadata.
    """
    snapshot.check_writable()
    metadata = plan_drop(snapshot, columns)
    parameters = {"columns": [place_of(snapshot, column).name for column in columns]}
    return commit_change(snapshot, "DROP COLUMNS", parameters, metadata=metadata, commit_properties=commit_properties)


def _check_mapped(snapshot: Snapshot, verb: str) -> None:
    if snapshot.layout.mapping == "none":
        raise UnsupportedFeatureError(
            f"columns cannot be {verb}: the table has no column mapping (columnMapping)",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f'First call alter.set_table_properties({{"{COLUMN_MAPPING_MODE.key}": "name"}})',
        )
