"""Make a table: its first metadata, the protocol its schema and properties ask for, version 0 without rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError, TableNotFoundError
from lakehouse_lib.features import changed_configuration, requested_features, with_physical_names
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import clock
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import CHANGE_DATA_FEED, COLUMN_MAPPING_MODE
from lakehouse_lib.schema import PrimitiveType, Schema, TableLayout, check_feed_names, check_names, check_usable
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Conflict, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: Modes of writing, and commitInfo's names of them.
MODE_NAMES = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}


def new_metadata(
    schema: Schema,
    partition_by: Sequence[str] = (),
    *,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    before: Metadata | None = None,
    table: str | None = None,
) -> Metadata:
    """The metaData of a new table, or of one that takes the place of another.

    Args:
        schema: its columns, the partition columns among them.
        partition_by: names regardless of case, in the order of the folders.
        configuration: table properties (``delta.*``); None values are left out.
        before: the metadata that this replaces; its id, its time and its column ids are kept.

    Raises:
        InvalidSchemaError: no column, names or types that no table can have.
        InvalidArgumentError: a partition column that is none, or a property with a name or value that is not valid.
        UnsupportedFeatureError: a property or column that enables a feature which this library does not write.
    """
    check_usable(schema, table=table)
    properties = changed_configuration({}, configuration or {}, schema, table=table)
    check_columns(schema, properties, table=table)
    metadata = Metadata(
        id=str(uuid.uuid4()) if before is None else before.id,
        schema_string=schema.to_json(),
        partition_columns=partition_columns(schema, partition_by, table),
        configuration=properties,
        name=name,
        description=description,
        created_time=clock.now() if before is None else before.created_time,
    )
    return with_physical_names(metadata, before, table=table)


def check_columns(schema: Schema, configuration: Mapping[str, str], *, table: str | None) -> None:
    """Refuse columns that a table with these properties cannot have.

    Raises:
        InvalidSchemaError: no column, or names that this table cannot have.
    """
    if not schema.fields:
        raise InvalidSchemaError("a table needs a column", table=table, hint="Write data that has columns")
    if COLUMN_MAPPING_MODE.of(configuration, table) == "none":
        check_names(schema, table=table)
    if CHANGE_DATA_FEED.is_on(configuration):
        check_feed_names(schema, table=table)


def create_table(
    store: ObjectStore,
    schema: Schema,
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Make a table without rows.

    Args:
        mode: for a table that is there: "error" and "append" raise, "ignore" leaves it as it is, "overwrite" removes
            its rows and gives it this schema, partitioning and properties.

    Raises:
        InvalidArgumentError: a table is there, or the mode is none.
        CommitFailedError: (mode "overwrite") a concurrent commit contradicts this one.
    """
    if mode not in MODE_NAMES:
        raise unknown_mode(mode, store)
    check_kinds(partition_by, name, description, configuration, table=store.root)
    try:
        snapshot: Snapshot | None = load_snapshot(store)
    except TableNotFoundError:
        snapshot = None
    metadata = new_metadata(
        schema,
        partition_by or (),
        name=name,
        description=description,
        configuration=configuration,
        before=None if snapshot is None else snapshot.metadata,
        table=store.root,
    )
    if snapshot is not None and mode == "ignore":
        return OperationResult(store.root, snapshot.version, None)
    if snapshot is not None and mode != "overwrite":
        raise table_exists(store, hint='Use mode "ignore" to open it, "overwrite" to empty it, or another location')
    parameters = {"mode": MODE_NAMES[mode], **describe(metadata)}
    features = requested_features(configuration or {})
    if snapshot is None:
        change = TableChange("CREATE TABLE", parameters, metadata=metadata, features=features)
    else:
        change = TableChange(
            "CREATE OR REPLACE TABLE",
            parameters,
            removed=snapshot.files,
            metadata=metadata,
            features=features,
            reads=(None,),
        )
    outcome = change.on(snapshot, store).commit(commit_properties)
    if snapshot is None and isinstance(outcome, Conflict):
        if mode == "ignore":
            return OperationResult(store.root, load_snapshot(store).version, None)
        raise table_exists(store, hint='Use mode "ignore" to open it, "overwrite" to empty it, or another location')
    return OperationResult(store.root, None if snapshot is None else snapshot.version, version_of(outcome))


def unknown_mode(mode: str, store: ObjectStore) -> InvalidArgumentError:
    """What every verb with a mode raises for one that is none."""
    return InvalidArgumentError(f"the mode {mode!r}", table=store.root, hint=f"Use one of {', '.join(MODE_NAMES)}")


def table_exists(
    store: ObjectStore, *, hint: str = 'Use mode "append" or "overwrite", or another location'
) -> InvalidArgumentError:
    """What creating a table raises where one is; by default with the modes of a write."""
    return InvalidArgumentError("there is a table already", table=store.root, hint=hint)


def check_kinds(
    partition_by: object, name: object, description: object, configuration: object, *, table: str | None
) -> None:
    """What every verb that may create a table asks before it writes a file.

    Raises:
        InvalidArgumentError: partition columns that are not a list of names, a name or a description that is not text,
            properties that are not a dictionary with names as keys.
    """

    def is_names(value: object) -> bool:
        return isinstance(value, Sequence) and all(isinstance(item, str) for item in value)

    for what, value, fits, way_out in (
        ("partition_by", partition_by, is_names(partition_by), "a list of column names"),
        ("name", name, isinstance(name, str), "text"),
        ("description", description, isinstance(description, str), "text"),
        (
            "configuration",
            configuration,
            isinstance(configuration, Mapping) and is_names(list(configuration)),
            'a dictionary such as {"delta.appendOnly": "true"}',
        ),
    ):
        if value is not None and not fits:
            raise InvalidArgumentError(f"{what} is {excerpt(value)}", table=table, hint=f"Give {way_out}, or None")


def describe(metadata: Metadata) -> dict[str, object]:
    """commitInfo's operationParameters of a new table."""
    return {
        "partitionBy": list(metadata.partition_columns),
        "description": metadata.description,
        "properties": dict(metadata.configuration),
    }


def partition_columns(schema: Schema, names: Sequence[str], table: str | None) -> tuple[str, ...]:
    columns = []
    for name in names:
        field = schema.get(name)
        if field is None:
            raise InvalidArgumentError(
                f"the partition column {name!r} is not in the schema",
                table=table,
                hint=f"The columns are {', '.join(schema.names)}",
            )
        if not isinstance(field.type, PrimitiveType):
            raise InvalidArgumentError(
                f"a table cannot be partitioned by {field.name!r} of type {field.type}",
                table=table,
                hint="Partition by a column of a primitive type",
            )
        columns.append(field.name)
    if len(set(columns)) < len(columns):
        raise InvalidArgumentError(f"a partition column is named twice in {list(names)}", table=table)
    if columns and not TableLayout(schema, tuple(columns)).data_columns.fields:
        raise InvalidArgumentError(
            f"every column is a partition column: {', '.join(columns)}",
            table=table,
            hint="Leave a column to be stored in the files",
        )
    return tuple(columns)
