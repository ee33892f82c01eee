"""Add files that another program has written to an existing table, and remove files from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import as_array, strings
from lakehouse_lib.data_skipping.file_pruning import evaluate_partitions
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import row_rules
from lakehouse_lib.features.computed_columns.identity_columns import identities
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.partition_predicate import check_partition_predicate
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange, write_metrics
from lakehouse_lib.operations.write.add_actions import AddAction, added_files
from lakehouse_lib.operations.write.create import MODE_NAMES, unknown_mode
from lakehouse_lib.operations.write.planned_write import Write, metadata_after
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import Schema, TableLayout
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

_MODES = ("append", "overwrite")


@dataclass
class RemoveAction:
    """A data file that is removed from a table.

    Attributes:
        path: the path of the file as in the log, or without percent-encoding.
        data_change: True if the rows are removed. False if the added files have the same rows.
        deletion_timestamp: ignored; the file is removed at the time of the commit.
        size, partition_values: ignored; the values in the log are used.
    """

    path: str
    data_change: bool
    deletion_timestamp: int
    size: int | None = None
    partition_values: dict[str, str | None] | None = None


def commit_actions(
    snapshot: Snapshot,
    actions: Sequence[AddAction | RemoveAction],
    mode: str,
    schema: Schema,
    *,
    partition_by: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Commit file actions in one commit. No data file is read.

    Args:
        mode: "append" adds and removes the files of the actions; "overwrite" adds files and removes all other files,
            or with ``predicate`` the files of the partitions for which it is true.
        schema: the schema of the added files. Its columns are columns of the table with the same types, and include all
            NOT NULL columns. In an overwrite of the whole table, this schema may differ, and becomes the table's.
        partition_by: None, or the partition columns of the table.
        predicate: a predicate on partition columns, only with mode "overwrite". It is true for all added files.

    Raises:
        InvalidArgumentError: an argument or an action is not valid, a file to add does not exist or is in the table, or
            a file to remove is not in the table.
        SchemaMismatchError: the schema does not fit the table.
        ConstraintViolatedError: the predicate is not true for an added file, or a partition value of a NOT NULL column
            is null.
        UnsupportedFeatureError: the table uses a feature that this library cannot write; or files are added, and the
            table has rules for rows other than NOT NULL, identity columns, column mapping or copies of partition
            columns: files are not read.
        DeltaProtocolError: the table is append-only, and rows would be removed.
        CommitFailedError: a concurrent commit conflicts with this one.
        CommitUnknownError: the store gave no answer to the commit.
    """
    store, table = snapshot.store, snapshot.store.root
    if mode not in _MODES:
        raise unknown_mode(mode, store, _MODES)
    snapshot.check_writable()
    adds, removes = _by_kind(actions, table)
    if removes and mode != "append":
        raise _invalid(
            "mode is 'overwrite', which removes all other files; expected RemoveActions only with mode 'append'", table
        )
    if predicate is not None and mode != "overwrite":
        raise _invalid(f"partition_filters are given and mode is {mode!r}; expected mode 'overwrite'", table)
    check_partition_predicate(snapshot, predicate)
    metadata = _metadata(snapshot, schema, partition_by, may_change=mode == "overwrite" and predicate is None)
    if adds:
        _check_required(snapshot, schema, metadata)
    added = _files_to_add(snapshot, adds, metadata, predicate)
    if mode == "append":
        removed = _files_to_remove(snapshot, removes)
    else:
        removed = snapshot.files
        if predicate is not None:
            removed = removed.filter(evaluate_partitions(predicate, removed, snapshot.layout))
    change = TableChange(
        "WRITE",
        {"mode": MODE_NAMES[mode], "partitionBy": list(metadata.partition_columns)},
        added,
        removed,
        metadata=None if metadata == snapshot.metadata else metadata,
        reads=(predicate,) if mode == "overwrite" else (),
        moves_rows=bool(removes) and not removes[0].data_change,
        metrics=write_metrics(added, removed),
    )
    outcome = change.on(snapshot, store).commit(commit_properties)
    return ChangeResult(table, snapshot.version, version_of(outcome), change.metrics)


def _by_kind(actions: Sequence[AddAction | RemoveAction], table: str) -> tuple[list[AddAction], list[RemoveAction]]:
    adds: list[Any] = []
    removes: list[Any] = []
    if not isinstance(actions, Sequence):
        raise _invalid(f"actions is {excerpt(actions)}; expected a list of actions", table)
    for action in actions:  # the action classes of the deltalake package have the same attributes
        if hasattr(action, "deletion_timestamp"):
            removes.append(action)
        elif hasattr(action, "modification_time"):
            adds.append(action)
        else:
            raise _invalid(f"an action is {excerpt(action)}; expected an AddAction or a RemoveAction", table)
    for action in removes:
        if not isinstance(action.path, str):
            raise _invalid(f"path of a RemoveAction is {excerpt(action.path)}; expected text", table)
        if not isinstance(action.data_change, bool):
            raise _invalid(
                f"data_change of {action.path} is {excerpt(action.data_change)}; expected True or False", table
            )
    if len({action.data_change for action in removes}) > 1:
        raise _invalid("data_change is True and False in different RemoveActions; expected one value for all", table)
    return adds, removes


def _metadata(snapshot: Snapshot, schema: Schema, partition_by: Sequence[str] | None, *, may_change: bool) -> Metadata:
    """The metadata after the commit; if ``may_change``, with ``schema`` as the new schema."""
    metadata = metadata_after(snapshot, pa.schema([]), Write("append", "merge", partition_by))
    columns, data = (_types(side) for side in (snapshot.schema, schema))
    if may_change and columns != data:
        return metadata_after(snapshot, schema.to_arrow(), Write("overwrite", "overwrite"))
    mismatches = sorted(name for name, kind in data.items() if columns.get(name) != kind)
    if mismatches:
        raise SchemaMismatchError(
            f"the schema of the files has {', '.join(f'{name}: {data[name]}' for name in mismatches)}; "
            f"expected columns of the table with the table's types: {columns}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Add columns with alter.add_columns first, or rewrite the files",
        )
    return metadata


def _check_required(snapshot: Snapshot, schema: Schema, metadata: Metadata) -> None:
    """Refuse files that lack a NOT NULL column of the table."""
    required = {field.name for field in Schema.from_json(metadata.schema_string).fields if not field.nullable}
    missing = sorted(required.difference(schema.names, metadata.partition_columns))
    if missing:
        raise SchemaMismatchError(
            f"the schema of the files lacks {', '.join(missing)}; expected all NOT NULL columns of the table",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Rewrite the files with these columns",
        )


def _types(schema: Schema) -> dict[str, str]:
    """The text of each column's type by column name; NOT NULL is ignored at every depth."""
    return {field.name: str(field.type) for field in nullable(schema.to_arrow())}


def _files_to_add(
    snapshot: Snapshot, actions: Sequence[AddAction], metadata: Metadata, predicate: Predicate | None
) -> pa.Table:
    """The files table of the added files, after the check that they satisfy the predicate."""
    store, table = snapshot.store, snapshot.store.root
    reasons = [rule.name for rule in row_rules(metadata, table) if not rule.name.startswith("NOT NULL")]
    reasons += [f"the identity column {name!r}" for name in identities(snapshot.schema, table)]
    if snapshot.layout.mapping != "none":
        reasons.append("column mapping (columnMapping)")
    if snapshot.layout.copied_partition_columns.fields:
        reasons.append("copies of the partition columns in its files (materializePartitionColumns)")
    if actions and reasons:
        raise UnsupportedFeatureError(
            f"the table has {reasons[0]}, which cannot be checked, because added files are not read",
            table=table,
            version=snapshot.version,
            hint="Write the rows with write_deltalake",
        )
    layout = TableLayout(Schema.from_json(metadata.schema_string), metadata.partition_columns)
    added = added_files(actions, WriteTarget(store, layout, metadata.configuration))
    live = file_paths.canonical(snapshot.file_columns(["path"])["path"], store)
    duplicates = added.filter(pc.is_in(file_paths.canonical(added["path"], store), value_set=pc.unique(live)))
    if len(duplicates):
        raise _invalid(f"the file {duplicates['path'][0]} is already in the table", table)
    if predicate is not None:
        matches = pc.fill_null(evaluate_partitions(predicate, added, layout), False)
        if not pc.all(matches, min_count=0).as_py():
            raise ConstraintViolatedError(
                f"the partition values of {added.filter(pc.invert(matches))['path'][0]} violate the partition filters",
                table=table,
                hint="Add only files of the partitions that are replaced",
                code="DELTA_REPLACE_WHERE_MISMATCH",
            )
    return added


def _files_to_remove(snapshot: Snapshot, actions: Sequence[RemoveAction]) -> pa.Table:
    """The live files that the actions name."""
    if not actions:
        return snapshot.files.slice(0, 0)
    files, store = snapshot.files, snapshot.store
    paths = strings([action.path for action in actions])
    # A path may be spelled as in the log, or without percent-encoding.
    spellings = (files["path"], file_paths.decode_all(files["path"], store))
    rows = pc.coalesce(*(pc.index_in(paths, value_set=as_array(spelling)) for spelling in spellings))
    if rows.null_count:
        raise _invalid(f"the file {paths.filter(rows.is_null())[0]} is not in the table", store.root)
    if len(rows.unique()) < len(rows):
        raise _invalid("two actions have the same path", store.root)
    return files.take(rows)


def _invalid(problem: str, table: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        problem,
        table=table,
        hint="Nothing was committed. Correct the arguments",
        code="DELTA_INVALID_ADD_ACTION",
    )
