"""Create a table with the metadata and the protocol that its schema and properties require.

The table has no rows, or the rows of files that another program has written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.written_files import files_table
from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError, TableNotFoundError, UnsupportedFeatureError
from lakehouse_lib.features import (
    changed_configuration,
    protocol_for,
    requested_features,
    requested_versions,
    row_rules,
    with_physical_names,
)
from lakehouse_lib.features.computed_columns.column_defaults import check_defaults
from lakehouse_lib.features.computed_columns.generated_columns import check_expressions, generated_values
from lakehouse_lib.features.computed_columns.identity_columns import check_identities, identities
from lakehouse_lib.features.constraints import invariants
from lakehouse_lib.features.constraints.check_constraints import PREFIX as CONSTRAINT_PREFIX
from lakehouse_lib.features.file_layout import clustering, materialize_partition_columns
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import clock
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.write.add_actions import AddAction, added_files
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol
from lakehouse_lib.protocol.table_properties import CHANGE_DATA_FEED, COLUMN_MAPPING_MODE
from lakehouse_lib.schema import (
    PrimitiveType,
    RowRule,
    Schema,
    TableLayout,
    VariantType,
    check_feed_names,
    check_names,
    check_usable,
    text_length_rules,
)
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Conflict, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: The modes of a write, with their names in commitInfo.
MODE_NAMES = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}


def new_metadata(
    schema: Schema,
    partition_by: Sequence[str] = (),
    *,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    known_only: bool = True,
    before: Metadata | None = None,
    table: str | None = None,
) -> Metadata:
    """The metadata of a new table, or of a table that replaces another table.

    Args:
        schema: all columns, the partition columns included.
        partition_by: column names in any case, in the order of the folders.
        configuration: table properties (``delta.*``); None values are left out.
        known_only: refuse unknown properties that begin with ``delta.``.
        before: the metadata to replace, whose id, created time and column ids stay; None: the table is new.
        table: the table's location, for errors.

    Raises:
        InvalidSchemaError: the schema has no column, or a name or type that no table can have.
        InvalidArgumentError: a partition column or a property is not valid.
        InvalidPredicateError: a constraint does not parse, or names a column that does not exist.
        UnsupportedFeatureError: a property or column enables a feature that this library cannot write.
    """
    check_usable(schema, table=table)
    properties = changed_configuration({}, configuration or {}, schema, known_only=known_only, table=table)
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
    check_expressions(schema, table)
    check_identities(TableLayout(schema, metadata.partition_columns), table)
    check_defaults(schema, table)
    row_rules(metadata, table)  # refuse constraints that do not fit the columns
    return with_physical_names(metadata, before, table=table)


def check_columns(schema: Schema, configuration: Mapping[str, str], *, table: str | None) -> None:
    """Refuse columns that a table with these properties cannot have.

    Raises:
        InvalidSchemaError: the schema has no column, or a name that this table cannot have.
    """
    if not schema.fields:
        raise InvalidSchemaError(
            "the schema has 0 columns; expected at least 1", table=table, hint="Write data that has columns"
        )
    if COLUMN_MAPPING_MODE.of(configuration, table) == "none":
        check_names(schema, table=table)
    if CHANGE_DATA_FEED.is_on(configuration):
        check_feed_names(schema, table=table)


def create_table(
    store: ObjectStore,
    schema: Schema,
    add_actions: Sequence[AddAction] = (),
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    cluster_by: Sequence[str] | None = None,
    known_only: bool = True,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Create a table without rows, or with the rows of existing files.

    Args:
        add_actions: the existing files; empty: the table has no rows.
        mode: if the table exists, "error" (default) and "append" raise, "ignore" does nothing, and "overwrite" removes
            its rows and replaces its schema, partitioning and properties.
        partition_by, name, description, configuration, known_only: as in ``new_metadata``.
        cluster_by: the columns by which ``z_order`` clusters the table (``features.file_layout.clustering``).

    Raises:
        InvalidArgumentError: the table exists, or the mode, an action or another argument is not valid.
        DeltaError: as ``new_metadata`` and ``added_files``.
        DeltaProtocolError: the table that is overwritten is append-only.
        CommitFailedError: (mode "overwrite") a concurrent commit conflicts with this one.
        CommitUnknownError: the store gave no answer to the commit.
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
        known_only=known_only,
        before=None if snapshot is None else snapshot.metadata,
        table=store.root,
    )
    domains = _clustering(metadata, cluster_by, snapshot, store.root)
    if snapshot is not None and mode == "ignore":
        return OperationResult(store.root, snapshot.version, None)
    if snapshot is not None and mode != "overwrite":
        raise table_exists(store, hint='Use mode "ignore" to open it, "overwrite" to empty it, or another location')
    parameters = {"mode": MODE_NAMES[mode], **describe(metadata)}
    features = requested_features(configuration or {})
    if cluster_by:
        parameters["clusterBy"] = list(cluster_by)
        features |= {clustering.FEATURE.name}
    protocol = protocol_for(metadata, None if snapshot is None else snapshot.protocol, extra=features)
    change = TableChange(
        "CREATE TABLE",
        parameters,
        added=_added_files(add_actions, metadata, protocol, store),
        metadata=metadata,
        features=features,
        versions=requested_versions(configuration or {}),
        domains=domains,
    )
    if snapshot is not None:
        change = replace(change, operation="CREATE OR REPLACE TABLE", removed=snapshot.files, reads=(None,))
    outcome = change.on(snapshot, store).commit(commit_properties)
    if snapshot is None and isinstance(outcome, Conflict):
        if mode == "ignore":
            return OperationResult(store.root, load_snapshot(store).version, None)
        raise table_exists(store, hint='Use mode "ignore" to open it, "overwrite" to empty it, or another location')
    return OperationResult(store.root, None if snapshot is None else snapshot.version, version_of(outcome))


def _clustering(
    metadata: Metadata, columns: Sequence[str] | None, snapshot: Snapshot | None, table: str
) -> tuple[DomainMetadata, ...]:
    """The domain of the clustering columns, if the commit of a new or replaced table changes it; else nothing."""
    if not columns:
        return clustering.domain_after({} if snapshot is None else snapshot.domains)
    mapping = COLUMN_MAPPING_MODE.of(metadata.configuration, table)
    layout = TableLayout(Schema.from_json(metadata.schema_string), metadata.partition_columns, mapping)
    return (clustering.clustering_domain(columns, layout, metadata.configuration, table=table),)


def _added_files(actions: Sequence[AddAction], metadata: Metadata, protocol: Protocol, store: ObjectStore) -> pa.Table:
    if not actions:
        return files_table([], data_change=True)
    check_for_existing_files(metadata, protocol, store.root)
    layout = TableLayout(Schema.from_json(metadata.schema_string), metadata.partition_columns)
    return added_files(actions, WriteTarget(store, layout, metadata.configuration))


def check_for_existing_files(metadata: Metadata, protocol: Protocol, table: str) -> None:
    """Refuse columns, properties and features that a table of existing files cannot have.

    Raises:
        InvalidArgumentError: the properties enable column mapping, but columns of existing files have no ids and
            physical names; or the rows are not read, but the properties have a CHECK constraint, or a column is a
            generated or identity column.
        UnsupportedFeatureError: the rows are not read, but a column has an invariant or is ``CHAR`` or ``VARCHAR``; or
            the protocol requires copies of the partition columns, which existing files may lack.
    """
    schema, configuration = Schema.from_json(metadata.schema_string), metadata.configuration
    if metadata.partition_columns and materialize_partition_columns.FEATURE.is_supported(protocol):
        raise UnsupportedFeatureError(
            "materializePartitionColumns requires copies of the partition columns in files; expected a table without "
            "this feature, because existing files may lack the copies",
            table=table,
            hint="Enable the feature after the table has these files, or write the rows to a new table instead",
        )
    mode = configuration.get(COLUMN_MAPPING_MODE.key)
    if mode is not None and mode.strip().lower() != "none":
        raise InvalidArgumentError(
            f"{COLUMN_MAPPING_MODE.key} is {mode!r}; expected 'none'",
            table=table,
            hint="Columns of existing files have no ids and physical names; write the rows to a new table instead",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    constraint = next((key for key in configuration if key.startswith(CONSTRAINT_PREFIX)), None)
    if constraint is not None:
        raise InvalidArgumentError(
            f"the property {constraint} is given; expected no constraint, because the rows of existing files are not "
            "checked",
            table=table,
            hint="Add the constraint to the new table by alter.add_constraint, which checks the rows",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    way_out = "Leave the column's metadata out, or write the rows to a new table instead"
    computed = next(iter((*generated_values(schema), *identities(schema))), None)
    if computed is not None:
        raise InvalidArgumentError(
            f"the column {computed!r} is a generated or identity column; expected no such column, because the rows of "
            "existing files are not checked",
            table=table,
            hint=way_out,
            code="DELTA_INVALID_GENERATED_COLUMN",
        )
    layout = TableLayout(schema, ())
    rules: list[RowRule] = [*text_length_rules(layout), *invariants.rules({}, layout, table)]
    if rules:
        raise UnsupportedFeatureError(
            f"the schema has {rules[0].name}; expected no rule, because the rows of existing files are not checked",
            table=table,
            hint=way_out,
        )


def unknown_mode(mode: str, store: ObjectStore, modes: Iterable[str] = MODE_NAMES) -> InvalidArgumentError:
    """The error for a mode that is not one of ``modes``."""
    return InvalidArgumentError(
        f"mode is {mode!r}; expected one of {', '.join(modes)}", table=store.root, code="DELTA_INVALID_SAVE_MODE"
    )


def table_exists(
    store: ObjectStore, *, hint: str = 'Use mode "append" or "overwrite", or another location'
) -> InvalidArgumentError:
    """The error for creating a table that exists; the default hint names the modes of a write."""
    return InvalidArgumentError(
        "the table exists already", table=store.root, hint=hint, code="DELTA_TABLE_ALREADY_EXISTS"
    )


def check_kinds(
    partition_by: object, name: object, description: object, configuration: object, *, table: str | None
) -> None:
    """Check the types of the arguments that describe a new table, before a file is written.

    Raises:
        InvalidArgumentError: partition_by is not a list of names, name or description is not text, or configuration is
            not a dictionary with names as keys.
    """

    def is_names(value: object) -> bool:
        return isinstance(value, Sequence) and all(isinstance(item, str) for item in value)

    for argument, value, fits, kind in (
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
            raise InvalidArgumentError(
                f"{argument} is {excerpt(value)}; expected {kind} or None", table=table, hint=f"Pass {kind}, or None"
            )


def describe(metadata: Metadata) -> dict[str, object]:
    """The entries of a new table in commitInfo's operationParameters."""
    return {
        "partitionBy": list(metadata.partition_columns),
        "description": metadata.description,
        "properties": dict(metadata.configuration),
    }


def partition_columns(schema: Schema, names: Sequence[str], table: str | None) -> tuple[str, ...]:
    """The names of the partition columns, as the schema spells them.

    Raises:
        InvalidArgumentError: a name is not a column of the schema or occurs twice, a type is not primitive, or no other
            column is left.
    """
    columns = []
    for name in names:
        field = schema.get(name)
        if field is None:
            raise InvalidArgumentError(
                f"partition_by has {name!r}; expected columns of the schema",
                table=table,
                hint=f"The columns are {', '.join(schema.names)}",
            )
        if not isinstance(field.type, PrimitiveType) or field.type == VariantType():
            raise InvalidArgumentError(
                f"partition_by has {field.name!r} of type {field.type}; expected columns of primitive types",
                table=table,
                hint="Partition by a column of a primitive type",
            )
        columns.append(field.name)
    if len(set(columns)) < len(columns):
        raise InvalidArgumentError(f"partition_by is {list(names)}; expected different names", table=table)
    if columns and not TableLayout(schema, tuple(columns)).data_columns.fields:
        raise InvalidArgumentError(
            f"every column is a partition column: {', '.join(columns)}; expected at least one other column",
            table=table,
            hint="Leave at least one column out of partition_by, so that data files have a column",
        )
    return tuple(columns)
