"""Set and remove table properties, and change the name and the description of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.features import (
    changed_configuration,
    column_mapping,
    requested_features,
    requested_versions,
    row_tracking,
)
from lakehouse_lib.features.constraints import check_constraints
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.alter.features.mapping_removal import remove_mapping
from lakehouse_lib.operations.alter.features.row_id_backfill import backfill_row_ids
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import (
    CHANGE_DATA_FEED,
    COLUMN_MAPPING_MODE,
    ROW_TRACKING,
)
from lakehouse_lib.schema import check_feed_names
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties

_LONGEST_NAME, _LONGEST_DESCRIPTION = 255, 4_000


def plan_properties(snapshot: Snapshot, change: Mapping[str, str | None]) -> Metadata:
    """The metadata with changed properties.

    If the change enables column mapping, columns get ids, and their names become their physical names.

    Args:
        change: property -> new value; None removes the property.

    Raises:
        InvalidArgumentError: a property or a value is not valid, or defines a constraint.
        UnsupportedFeatureError: a property enables a feature that this library does not write, or existing files do not
            fit the change.
        InvalidSchemaError: the change data feed does not allow the name of a column.
    """
    table, before = snapshot.store.root, snapshot.metadata
    for key in change:
        if key.lower().startswith(check_constraints.PREFIX):
            raise InvalidArgumentError(
                f"the property {key} defines a constraint; expected another property",
                table=table,
                hint="Use alter.add_constraint, which checks the existing rows, and alter.drop_constraint",
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
    configuration = changed_configuration(before.configuration, change, snapshot.schema, table=table)
    after = replace(before, configuration=configuration)
    if CHANGE_DATA_FEED.is_on(configuration) and not CHANGE_DATA_FEED.is_on(before.configuration):
        check_feed_names(snapshot.schema, table=table)
    return _with_mapping_mode(snapshot, after) if COLUMN_MAPPING_MODE.key in change else after


def set_table_properties(
    snapshot: Snapshot,
    properties: Mapping[str, str],
    engine: Engine,
    *,
    raise_if_not_exists: bool = True,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Set table properties. A property that enables a feature adds the feature to the protocol.

    If the change enables row tracking for a table with files, earlier commits of this call give row ids to these files.
    If the change disables column mapping, the call rewrites all files.

    Args:
        properties: property -> value. ``delta.feature.NAME`` = "supported" adds a feature without a property.
            ``delta.minReaderVersion`` and ``delta.minWriterVersion`` raise the versions of the protocol.
        raise_if_not_exists: refuse names that do not begin with ``delta.``, as ``deltalake`` does. Unknown names that
            begin with ``delta.`` are always refused.

    Raises:
        DeltaError: as ``plan_properties``.
        MetadataChangedError: another writer changed the metadata first.
        ConcurrentAppendError: the change enables row tracking, and another writer added files first.
    """
    table = snapshot.store.root
    if not isinstance(properties, Mapping) or not all(isinstance(key, str) for key in properties):
        raise InvalidArgumentError(
            f"properties is {excerpt(properties)}; expected a dictionary of names to values",
            table=table,
            hint='Write {"delta.appendOnly": "true"}',
        )
    for key, value in properties.items():
        if value is None:
            raise InvalidArgumentError(
                f"the property {key} is None; expected a value",
                table=table,
                hint=f"Use alter.unset_table_properties([{key!r}])",
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
        if raise_if_not_exists and not key.lower().startswith("delta."):
            raise InvalidArgumentError(
                f"the property {excerpt(key)} is not a property of Delta; expected a name that begins with delta.",
                table=table,
                hint="Use raise_if_not_exists=False to store a property of your own",
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
    snapshot.check_writable()
    after = plan_properties(snapshot, properties)
    if _removes_mapping(snapshot, after):
        return _remove_mapping(snapshot, list(properties), engine, commit_properties)
    reads: tuple[None, ...] = ()
    if ROW_TRACKING.is_on(after.configuration) and not ROW_TRACKING.is_on(snapshot.configuration):
        snapshot = backfill_row_ids(snapshot, commit_properties=commit_properties)
        after = plan_properties(snapshot, properties)
        # Without the feature in the protocol, a concurrent commit may add a file that has no row ids.
        reads = () if row_tracking.assigns_row_ids(snapshot.protocol, snapshot.metadata) else (None,)
    return commit_change(
        snapshot,
        "SET TBLPROPERTIES",
        {"properties": dict(properties)},
        metadata=after,
        features=requested_features(properties, table=table),
        versions=requested_versions(properties, table=table),
        reads=reads,
        commit_properties=commit_properties,
    )


def unset_table_properties(
    snapshot: Snapshot,
    names: Sequence[str],
    engine: Engine,
    *,
    raise_if_not_exists: bool = True,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Remove table properties, so that their defaults apply. Features stay in the protocol.

    If the change disables column mapping, the call rewrites all files.

    Args:
        raise_if_not_exists: refuse a property that the table does not have.

    Raises:
        DeltaError: as ``plan_properties``.
        MetadataChangedError: another writer changed the metadata first.
    """
    table = snapshot.store.root
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_list or not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"names is {excerpt(names)}; expected a list of properties", table=table, hint='Write ["delta.appendOnly"]'
        )
    missing = [name for name in names if name not in snapshot.configuration]
    if missing and raise_if_not_exists:
        raise InvalidArgumentError(
            f"the table does not have the property {excerpt(missing[0])}",
            table=table,
            version=snapshot.version,
            hint=f"The properties are {', '.join(sorted(snapshot.configuration)) or 'none'}",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    properties = [name for name in names if name in snapshot.configuration]
    snapshot.check_writable()
    after = plan_properties(snapshot, dict.fromkeys(properties))
    if _removes_mapping(snapshot, after):
        return _remove_mapping(snapshot, properties, engine, commit_properties)
    return commit_change(
        snapshot,
        "UNSET TBLPROPERTIES",
        {"properties": list(names), "ifExists": not raise_if_not_exists},
        metadata=after,
        commit_properties=commit_properties,
    )


def set_table_name(
    snapshot: Snapshot, name: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Set the name of the table in its metadata.

    Raises:
        InvalidArgumentError: ``name`` is not text of 1 to 255 characters.
    """
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidArgumentError(
            f"name is {excerpt(name)}; expected text of 1 to {_LONGEST_NAME} characters",
            table=snapshot.store.root,
            hint=f"Pass text of 1 to {_LONGEST_NAME} characters",
        )
    return _rename(snapshot, replace(snapshot.metadata, name=name), {"name": name}, commit_properties)


def set_table_description(
    snapshot: Snapshot, description: str, *, commit_properties: CommitProperties | None = None
) -> OperationResult:
    """Set the description of the table in its metadata.

    Raises:
        InvalidArgumentError: ``description`` is not text of at most 4000 characters.
    """
    if not isinstance(description, str) or len(description) > _LONGEST_DESCRIPTION:
        raise InvalidArgumentError(
            f"description is {excerpt(description)}; expected text of at most {_LONGEST_DESCRIPTION} characters",
            table=snapshot.store.root,
            hint=f"Pass text of at most {_LONGEST_DESCRIPTION} characters",
        )
    after = replace(snapshot.metadata, description=description)
    return _rename(snapshot, after, {"description": description}, commit_properties)


def _rename(
    snapshot: Snapshot, after: Metadata, update: Mapping[str, str], commit_properties: CommitProperties | None
) -> OperationResult:
    return commit_change(
        snapshot,
        "UPDATE TABLE METADATA",
        {"metadataUpdate": update},
        metadata=after,
        commit_properties=commit_properties,
    )


def _removes_mapping(snapshot: Snapshot, after: Metadata) -> bool:
    return snapshot.layout.mapping != "none" and COLUMN_MAPPING_MODE.of(after.configuration) == "none"


def _remove_mapping(
    snapshot: Snapshot, names: Sequence[str], engine: Engine, commit_properties: CommitProperties | None
) -> OperationResult:
    if list(names) != [COLUMN_MAPPING_MODE.key]:
        raise InvalidArgumentError(
            f"the properties are {excerpt(names)}; expected only {COLUMN_MAPPING_MODE.key}, because removing "
            "column mapping rewrites all files",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Change the other properties in another call",
        )
    return remove_mapping(snapshot, engine, commit_properties=commit_properties)


def _with_mapping_mode(snapshot: Snapshot, after: Metadata) -> Metadata:
    """The metadata with a new column mapping mode. As in delta-spark, it can change from none to name, or to none."""
    table = snapshot.store.root
    before_mode = COLUMN_MAPPING_MODE.of(snapshot.metadata.configuration, table)
    mode = COLUMN_MAPPING_MODE.of(after.configuration, table)
    if mode in (before_mode, "none"):
        return after
    if (before_mode, mode) == ("none", "name"):
        return column_mapping.with_current_names(after)
    raise UnsupportedFeatureError(
        f"{COLUMN_MAPPING_MODE.key} cannot change from {before_mode} to {mode} (columnMapping); expected a change from "
        "none to name, or to none",
        table=table,
        version=snapshot.version,
        hint="Copy the rows into a table that is created with this mode",
    )
