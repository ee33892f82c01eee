"""Write rows into a table: create, append or overwrite, in one commit, with any engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.incoming import Incoming
from lakehouse_lib.errors import (
    CommitUnknownError,
    DeltaError,
    InvalidArgumentError,
    TableNotFoundError,
)
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import requested_features, requested_versions, row_rules
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns
from lakehouse_lib.features.computed_columns.identity_columns import with_high_water_marks
from lakehouse_lib.operations.dml.row_change import change_rows
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.optimize.auto_compact import compact_after_write
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange, write_metrics
from lakehouse_lib.operations.write.create import MODE_NAMES, describe, table_exists
from lakehouse_lib.operations.write.identity_values import commit_numbers
from lakehouse_lib.operations.write.overwrite import ReplaceWhere, files_of_partitions
from lakehouse_lib.operations.write.planned_write import PlannedWrite, Write, check_write, plan_write
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE
from lakehouse_lib.schema import Schema, enforce
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Conflict, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties


def write(
    store: ObjectStore,
    rows: Incoming,
    what: Write,
    engine: Engine,
    *,
    snapshot: Snapshot | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Write rows in one commit. Mode "ignore" commits nothing if the table exists.

    A write without rows also makes a commit, as in delta-rs, because the commit may have application transactions. If
    another writer creates the table first, a write with mode "append" or "overwrite" is committed to that table,
    provided that the new files fit its schema and partitioning.

    Args:
        snapshot: the latest version, if the caller has loaded it.

    Raises:
        InvalidArgumentError: the mode is not valid, the table exists (mode "error"), or its partitioning differs.
        InvalidSchemaError: data files cannot store the rows; see ``check_rows_are_kept``.
        InvalidPredicateError: the predicate is not valid, or the engine cannot evaluate it.
        SchemaMismatchError: columns do not fit; the message lists all of them.
        ConstraintViolatedError: rows violate a rule of the table, or the predicate is not true for them.
        UnsupportedFeatureError: the table uses a feature that this library cannot write.
        DeltaProtocolError: (mode "overwrite") the table is append-only.
        CommitFailedError: a concurrent commit conflicts with this one; nothing is committed.
        CommitUnknownError: the store gave no answer to the commit.
    """
    check_write(what, store)
    try:
        snapshot = snapshot or load_snapshot(store)
    except TableNotFoundError:
        pass
    else:
        if what.mode == "ignore":
            return _ignored_write(store, snapshot)
    plan = plan_write(store, rows.schema, what, snapshot)
    names = None if rows.rows is None else rows.schema.names
    numbered = () if names is None else plan.numbered(names)

    def write_files() -> pa.Table:
        return pa.Table.from_batches([], FILE_SCHEMA) if names is None else engine.write(rows.rows, plan.target)

    if snapshot is not None and plan.predicate is not None:
        operation = ReplaceWhere(plan.predicate, engine, what.writer_properties, write_files, plan.metadata, numbered)
        return change_rows(snapshot, operation, engine, commit_properties=commit_properties)
    return commit_files(plan, write_files(), engine, numbered=numbered, commit_properties=commit_properties)


def commit_files(
    plan: PlannedWrite,
    files: pa.Table,
    engine: Engine,
    *,
    numbered: Sequence[str] = (),
    commit_properties: CommitProperties | None = None,
    before_commit: Callable[[], None] | None = None,
    reads: Sequence[Predicate | None] = (),
) -> ChangeResult:
    """Commit the new files of a planned write without a predicate. If nothing is committed, the files are deleted.

    Args:
        files: the files table of files that were written for ``plan.target``.
        numbered: the identity columns whose numbers were assigned.
        before_commit: called before the commit; if it raises, nothing is committed.
        reads: the predicates of the rows on which the files of an append without ``numbered`` columns depend. A
            concurrent commit that adds or removes such rows, or creates the table, is a conflict.

    Raises:
        CommitFailedError: a concurrent commit conflicts with this one; nothing is committed.
        CommitUnknownError: the store gave no answer to the commit.
    """
    snapshot, metadata, what, target = plan.snapshot, plan.metadata, plan.what, plan.target
    store = target.store
    if before_commit is not None:
        try:
            before_commit()
        except BaseException:
            discard(store, files)
            raise
    if snapshot is not None and numbered:
        # Files with new columns have the physical names of this metadata, so they cannot be committed with other
        # metadata.
        may_repeat = what.mode == "append" and metadata == snapshot.metadata

        def commit(latest: Snapshot, added: pa.Table) -> ChangeResult:
            marked = with_high_water_marks(latest.metadata if may_repeat else metadata, target.layout, numbered, added)
            return _commit(store, latest, added, marked, what, commit_properties)

        result = commit_numbers(snapshot, files, numbered, target, engine, commit, may_repeat=may_repeat)
    else:
        try:
            result = _commit(store, snapshot, files, metadata, what, commit_properties, reads)
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
    reads: Sequence[Predicate | None] = (),
) -> ChangeResult:
    change = _change(snapshot, files, metadata, what)
    if reads:
        change = replace(change, reads=tuple(reads), is_serializable=True)
    outcome = change.on(snapshot, store).commit(properties)
    if snapshot is not None or reads or not isinstance(outcome, Conflict):
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
    no_files = pa.Table.from_batches([], FILE_SCHEMA)
    return ChangeResult(store.root, snapshot.version, None, write_metrics(no_files, no_files))


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


def _check_fits(snapshot: Snapshot, metadata: Metadata) -> None:
    """Check that files fit a table that another writer created before these files were committed.

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
    # Columns that only the other table computes would be null in the files, or their numbers would not be unique.
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
        hint="Repeat the write on that table",
    )
