"""Write rows into a table: create, append or overwrite, in one commit, with any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.incoming import Incoming
from lakehouse_lib.engine.parquet.stored_schema import check_rows_are_kept
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import (
    CommitUnknownError,
    DeltaError,
    InvalidArgumentError,
    TableNotFoundError,
)
from lakehouse_lib.expressions import Predicate, PredicateRule, parse
from lakehouse_lib.features import (
    check_removal,
    protocol_for,
    requested_features,
    requested_versions,
    row_rules,
    with_physical_names,
)
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns
from lakehouse_lib.features.computed_columns.identity_columns import check_assigned, with_marks
from lakehouse_lib.features.file_layout import materialize_partition_columns
from lakehouse_lib.operations.dml.row_change import change_rows
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.optimize.auto_compact import compact_after_write
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange, write_metrics
from lakehouse_lib.operations.write.create import (
    MODE_NAMES,
    check_columns,
    check_kinds,
    describe,
    new_metadata,
    partition_columns,
    table_exists,
    unknown_mode,
)
from lakehouse_lib.operations.write.identity_values import commit_numbers
from lakehouse_lib.operations.write.overwrite import (
    PartitionOverwriteMode,
    ReplaceWhere,
    check_columns_are_kept,
    check_is_partitioned,
    check_partial_overwrite,
    files_of_partitions,
)
from lakehouse_lib.operations.write.wider_schema import with_new_columns
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import (
    Schema,
    TableLayout,
    check_usable,
    enforce,
)
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Conflict, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

Mode = Literal["error", "append", "overwrite", "ignore"]
SchemaMode = Literal["merge", "overwrite"]


@dataclass(frozen=True)
class Write:
    """The options of a write.

    Attributes:
        mode: for a table that exists: "error", "append", "overwrite", "ignore".
        schema_mode: None: the data must fit the table; "merge": new columns and fields are added; "overwrite" (with
            mode "overwrite"): the table gets the data's schema; with a predicate, the data must have all columns of the
            table in their types.
        partition_by: partition columns of a new table, or of a table whose schema is overwritten. In other cases it is
            None or names the table's partition columns.
        name, description, configuration: the values of a new table; an existing table keeps its own values.
        target_file_size: size in bytes at which a file is closed. Spark's own Parquet writer ignores it.
        writer_properties: how the Parquet files are written.
        predicate: SQL (with mode "overwrite"): only rows for which it is true are replaced, and it must be true for all
            rows of the data. Rows for which it is NULL stay.
        partition_overwrite_mode: "dynamic" (with mode "overwrite"): only the partitions that occur in the data are
            replaced.
    """

    mode: Mode = "error"
    schema_mode: SchemaMode | None = None
    partition_by: Sequence[str] | None = None
    name: str | None = None
    description: str | None = None
    configuration: Mapping[str, str | None] | None = None
    target_file_size: int | None = None
    writer_properties: WriterProperties | None = None
    predicate: str | None = None
    partition_overwrite_mode: PartitionOverwriteMode = "static"


def write(
    store: ObjectStore,
    rows: Incoming,
    what: Write,
    engine: Engine,
    *,
    snapshot: Snapshot | None = None,
    commit_properties: CommitProperties | None = None,
    before_commit: Callable[[], None] | None = None,
) -> ChangeResult:
    """Write rows in one commit. Mode "ignore" commits nothing if the table exists.

    A write without rows also makes a commit, as in delta-rs, because its commit may have application transactions. If
    another writer creates the table first, a write with mode "append" or "overwrite" is committed to that table if the
    written files fit the schema and the partitioning of that table.

    Args:
        snapshot: the latest version, if the caller has loaded it.
        before_commit: called after the rows are written and before the commit; if it raises, nothing is committed.

    Raises:
        InvalidArgumentError: the mode is not valid, the table exists (mode "error"), or its partitioning differs.
        InvalidSchemaError: data files cannot store the rows; see ``check_rows_are_kept``.
        InvalidPredicateError: the predicate is not valid, or the engine cannot evaluate it.
        SchemaMismatchError: lists the columns that do not fit.
        ConstraintViolatedError: rows violate a rule of the table, or the predicate is not true for them.
        CommitFailedError: a concurrent commit conflicts with this one; nothing is committed.
        CommitUnknownError: the store gave no answer to the commit.
    """
    _check_modes(what, store)
    check_kinds(what.partition_by, what.name, what.description, what.configuration, table=store.root)
    try:
        snapshot = snapshot or load_snapshot(store)
    except TableNotFoundError:
        metadata = new_metadata(
            Schema.from_arrow(rows.schema),
            what.partition_by or (),
            name=what.name,
            description=what.description,
            configuration=what.configuration,
            table=store.root,
        )
    else:
        if what.mode == "error":
            raise table_exists(store)
        if what.mode == "ignore":
            return _ignored_write(store, snapshot)
        snapshot.check_writable()
        metadata = metadata_after(snapshot, rows.schema, what)
        if what.mode == "overwrite" and snapshot.file_count:  # refuse before rows are written
            check_removal(snapshot.metadata, table=store.root, version=snapshot.version)
    if what.partition_overwrite_mode == "dynamic":
        check_is_partitioned(metadata, store)
    predicate = _predicate(store, snapshot, metadata, what)
    target = _target(store, snapshot, metadata, what, predicate)
    numbered: tuple[str, ...] = ()
    if rows.rows is not None:
        check_assigned(target.layout.schema, rows.schema.names, store.root, is_insert=True)
        numbered = tuple(target.computed.without(rows.schema.names).identity)

    def write_files() -> pa.Table:
        files = pa.Table.from_batches([], FILE_SCHEMA) if rows.rows is None else engine.write(rows.rows, target)
        try:
            if before_commit is not None:
                before_commit()
        except DeltaError:
            discard(store, files)
            raise
        return files

    if snapshot is not None and predicate is not None:
        operation = ReplaceWhere(predicate, engine, what.writer_properties, write_files, metadata, numbered)
        return change_rows(snapshot, operation, engine, commit_properties=commit_properties)
    files = write_files()
    if snapshot is not None and numbered:
        # Files with new columns have the physical names of this metadata, so they cannot be committed with another.
        may_repeat = what.mode == "append" and metadata == snapshot.metadata

        def commit(latest: Snapshot, added: pa.Table) -> ChangeResult:
            marked = with_marks(latest.metadata if may_repeat else metadata, target.layout, numbered, added)
            return _commit(store, latest, added, marked, what, commit_properties)

        result = commit_numbers(snapshot, files, numbered, target, engine, commit, may_repeat=may_repeat)
    else:
        try:
            result = _commit(store, snapshot, files, metadata, what, commit_properties)
        except CommitUnknownError:  # a version may refer to the files
            raise
        except DeltaError:  # nothing was committed
            discard(store, files)
            raise
    latest = partial(load_snapshot, store) if snapshot is None else snapshot.update
    return compact_after_write(result, files, metadata.configuration, latest, engine, commit_properties)


def _commit(
    store: ObjectStore,
    snapshot: Snapshot | None,
    files: pa.Table,
    metadata: Metadata,
    what: Write,
    properties: CommitProperties | None,
) -> ChangeResult:
    change = _change(snapshot, files, metadata, what)
    outcome = change.on(snapshot, store).commit(properties)
    if snapshot is not None or not isinstance(outcome, Conflict):
        read_version = None if snapshot is None else snapshot.version
        return ChangeResult(store.root, read_version, version_of(outcome), change.metrics)
    if what.mode == "error":
        raise table_exists(store)
    if what.mode == "ignore":
        discard(store, files)
        return _ignored_write(store, load_snapshot(store))
    if what.predicate is not None:
        raise outcome.error
    winner = load_snapshot(store)
    _check_fits(winner, metadata)
    return _commit(store, winner, files, winner.metadata, what, properties)


def _ignored_write(store: ObjectStore, snapshot: Snapshot) -> ChangeResult:
    """The result of mode "ignore" for a table that exists."""
    nothing = pa.Table.from_batches([], FILE_SCHEMA)
    return ChangeResult(store.root, snapshot.version, None, write_metrics(nothing, nothing))


def _change(snapshot: Snapshot | None, files: pa.Table, metadata: Metadata, what: Write) -> TableChange:
    mode: dict[str, object] = {"mode": MODE_NAMES[what.mode]}
    if snapshot is None:
        metrics = write_metrics(files, files.slice(0, 0))
        created = {**mode, **describe(metadata)} | ({} if what.predicate is None else {"predicate": what.predicate})
        return TableChange(
            "WRITE",
            created,
            files,
            metadata=metadata,
            features=requested_features(what.configuration or {}),
            versions=requested_versions(what.configuration or {}),
            metrics=metrics,
        )
    removed, reads = _files_to_remove(snapshot, files, what)
    if what.partition_overwrite_mode == "dynamic":
        mode |= {"isDynamicPartitionOverwrite": True}
    return TableChange(
        "WRITE",
        {**mode, "partitionBy": list(metadata.partition_columns)},
        files,
        removed,
        metadata=metadata if metadata != snapshot.metadata else None,
        reads=reads,
        metrics=write_metrics(files, removed),
    )


def _files_to_remove(snapshot: Snapshot, files: pa.Table, what: Write) -> tuple[pa.Table, tuple[Predicate | None, ...]]:
    """The files that a write without a predicate removes, and the predicates of the rows that it reads."""
    if what.partition_overwrite_mode == "dynamic":
        return files_of_partitions(snapshot, files)
    if what.mode == "overwrite":
        return snapshot.files, (None,)
    return pa.Table.from_batches([], FILE_SCHEMA), ()


def _predicate(store: ObjectStore, snapshot: Snapshot | None, metadata: Metadata, what: Write) -> Predicate | None:
    if what.predicate is None:
        return None
    # A predicate on an existing table cannot name a column that this write adds, because the stored rows lack it.
    schema = Schema.from_json(metadata.schema_string) if snapshot is None else snapshot.schema
    return parse(what.predicate, schema, table=store.root)


def metadata_after(snapshot: Snapshot, incoming: pa.Schema, what: Write) -> Metadata:
    """The table's metadata after this write."""
    table = snapshot.store.root
    before = snapshot.metadata
    if what.schema_mode == "overwrite" and what.predicate is None:
        partition_by = snapshot.partition_columns if what.partition_by is None else what.partition_by
        schema = Schema.from_arrow(incoming)
        check_usable(schema, table=table)
        check_columns(schema, before.configuration, table=table)
        columns = partition_columns(schema, partition_by, table)
        replaced = replace(before, schema_string=schema.to_json(), partition_columns=columns)
        return with_physical_names(replaced, before, table=table)
    if what.partition_by is not None and [name.lower() for name in what.partition_by] != [
        name.lower() for name in snapshot.partition_columns
    ]:
        raise InvalidArgumentError(
            f"partition_by is {list(what.partition_by)}; expected the table's, {list(snapshot.partition_columns)}",
            table=table,
            version=snapshot.version,
            hint="Omit partition_by",
            code="DELTA_PARTITIONING_MISMATCH",
        )
    if what.schema_mode == "overwrite":
        check_columns_are_kept(snapshot, incoming)
    if what.schema_mode is not None:
        return with_new_columns(snapshot, incoming)
    enforce(snapshot.schema, incoming, table=table)
    return before


def _target(
    store: ObjectStore, snapshot: Snapshot | None, metadata: Metadata, what: Write, predicate: Predicate | None
) -> WriteTarget:
    schema = Schema.from_json(metadata.schema_string)
    if snapshot is None:
        protocol = protocol_for(metadata, extra=requested_features(what.configuration or {}))
    else:
        protocol = protocol_for(metadata, snapshot.protocol)
    layout = TableLayout(
        schema,
        metadata.partition_columns,
        COLUMN_MAPPING_MODE.of(metadata.configuration, store.root),
        copies_partition_columns=materialize_partition_columns.FEATURE.is_supported(protocol),
    )
    rules = row_rules(metadata, store.root)
    if predicate is not None:
        rules = (*rules, PredicateRule(predicate, code="DELTA_REPLACE_WHERE_MISMATCH"))
    target = WriteTarget(
        store,
        layout,
        metadata.configuration,
        what.target_file_size,
        rules=rules,
        writer_properties=what.writer_properties,
        computed=ComputedColumns.of(schema, store.root),
    )
    check_rows_are_kept(target)
    return target


def _check_fits(snapshot: Snapshot, metadata: Metadata) -> None:
    """Check that files fit a table that another writer created after the files were written.

    Args:
        snapshot: the table of the other writer.
        metadata: the metadata for which the files were written.

    Raises:
        SchemaMismatchError, InvalidArgumentError: the files do not fit.
    """
    schema = Schema.from_json(metadata.schema_string)
    # Names must also agree in case, because other readers compare names in files case-sensitively.
    winner_types = {field.name: field.type for field in snapshot.schema.fields}
    same_types = all(winner_types.get(field.name) == field.type for field in schema.fields)
    is_mapped = {snapshot.layout.mapping, COLUMN_MAPPING_MODE.of(metadata.configuration)} != {"none"}
    has_checked = set(row_rules(metadata)) >= set(row_rules(snapshot.metadata))
    # Columns that the winner computes would be null in the files, or would not be unique.
    computes_same = ComputedColumns.of(schema) == ComputedColumns.of(snapshot.schema)
    if (
        not is_mapped
        and same_types
        and has_checked
        and computes_same
        and snapshot.partition_columns == metadata.partition_columns
        and not snapshot.layout.copied_partition_columns.fields
    ):
        return
    enforce(snapshot.schema, schema.to_arrow(), table=snapshot.store.root)
    raise InvalidArgumentError(
        "another writer created the table first, with another schema, partitioning or physical names of columns",
        table=snapshot.store.root,
        version=snapshot.version,
        hint="Repeat the write; it will append to that table",
    )


def _check_modes(what: Write, store: ObjectStore) -> None:
    if what.mode not in MODE_NAMES:
        raise unknown_mode(what.mode, store)
    if what.schema_mode not in (None, "merge", "overwrite"):
        raise InvalidArgumentError(
            f"schema_mode is {what.schema_mode!r}; expected 'merge', 'overwrite' or None",
            table=store.root,
            code="DELTA_INVALID_WRITE_MODE",
        )
    check_partial_overwrite(what.mode, what.schema_mode, what.predicate, what.partition_overwrite_mode, store)
    if what.schema_mode == "overwrite" and what.mode != "overwrite":
        raise InvalidArgumentError(
            f"schema_mode is 'overwrite' and mode is {what.mode!r}; expected mode 'overwrite'",
            table=store.root,
            hint='Use mode "overwrite", or schema_mode "merge" to add columns',
            code="DELTA_INVALID_WRITE_MODE",
        )
