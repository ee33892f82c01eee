"""Apply change events to a table, each once, in any order and after any number of deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.incoming import Incoming
from lakehouse_lib.engine.merge_plan import MergeAction, MergeCase, MergeClause
from lakehouse_lib.errors import ConcurrentTransactionError, TableNotFoundError
from lakehouse_lib.expressions import matches, parse, parse_value
from lakehouse_lib.expressions.namespace import MergeNamespace
from lakehouse_lib.ingestion.change_events.events import ChangeEvents, change_events
from lakehouse_lib.ingestion.change_events.history import history_rows
from lakehouse_lib.ingestion.change_events.latest import RowChanges, latest_rows
from lakehouse_lib.ingestion.change_events.rules import (
    ACTION,
    END,
    SEQUENCES,
    START,
    ChangeRules,
    check_key_types,
    invalid_rules,
)
from lakehouse_lib.ingestion.change_events.stored_rows import rows_with_keys
from lakehouse_lib.log.latest import latest_version
from lakehouse_lib.operations.alter.columns import add_columns
from lakehouse_lib.operations.dml.merge import merge
from lakehouse_lib.operations.results import ChangeResult, EarlierChangeResult
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.operations.write.planned_write import Write
from lakehouse_lib.operations.write.write import write
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.schema import Field, Schema, align
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.schema.rows.enforcement import is_computed
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.application_transactions import duplicate_error
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: Application id of the ``txn`` that orders the commits of ``apply_changes``. Two runs at the same time conflict,
#: because each must see the deletions that the other one records.
_APPLICATION = "lakehouse.apply_changes"
_MOST_ATTEMPTS = 100
#: A clause of a merge: its case, its action, a condition, and the columns that get the values of the source.
_Clause = tuple[MergeCase, MergeAction, str | None, Sequence[str]]


def apply_changes(
    store: ObjectStore,
    events: pa.Table,
    rules: ChangeRules,
    engine: Engine,
    *,
    deleted_keys: ObjectStore,
    merges_schema: bool = False,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Apply change events to a table in one commit.

    The table depends only on the events that were applied, and not on their order, batches or repetition, if all events
    have the same columns or the rules have ``ignore_null_updates``. Deletions are recorded in a second table before the
    commit: an event that arrives late, with an earlier sequence, must not insert the row of a deleted key again. Every
    step can be repeated: after a kill, run it again with the same events.

    Args:
        events: keys, sequence, the columns of the table, and the columns of ``rules.apply_as_deletes``.
        deleted_keys: the store of the table of deletions; it is created when a key is deleted.
        merges_schema: the table gets the columns that only the events have.

    Returns:
        the result of the commit. Its metrics are those of ``merge``, numEvents and numDuplicateEvents.

    Raises:
        InvalidArgumentError: the rules do not fit the events or the table (DELTA_INVALID_CHANGE_RULES), or different
            events of a key have the same sequence (DELTA_AMBIGUOUS_SEQUENCE).
        NotSupportedError: a key or the sequence has a type without an exact order.
        SchemaMismatchError: a value does not fit its column.
        ConcurrentTransactionError: the table already has an application transaction of ``commit_properties``, or
            concurrent runs were faster 100 consecutive times.
        DeltaError: as ``merge``. Nothing is committed to the table.
    """
    properties = commit_properties or CommitProperties()
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        snapshot = _with_history(load_snapshot(store), events, rules)
        duplicate = duplicate_error(properties.app_transactions or (), snapshot, store.root)
        if duplicate is not None:
            raise duplicate
        try:
            return _apply(snapshot, events, rules, engine, deleted_keys, merges_schema, properties)
        except ConcurrentTransactionError:
            if attempt == _MOST_ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def create_target(store: ObjectStore, events: Schema, rules: ChangeRules) -> None:
    """Create the table for events with these columns if it does not exist.

    Raises:
        InvalidArgumentError, NotSupportedError: the rules do not fit the columns; no table is created.
    """
    columns = Schema([events.field(name) for name in rules.data_columns(events.names)])
    if latest_version(store) is None:  # the values for an existing table are converted to its types first
        needed = [events.field(name) for name in (*rules.keys, rules.sequence_by)]
        check_key_types(Schema(needed).to_arrow(), [*rules.keys, needed[-1].name])
        create_table(store, columns, mode="ignore")


def _apply(
    snapshot: Snapshot,
    rows: pa.Table,
    rules: ChangeRules,
    engine: Engine,
    deleted_keys: ObjectStore,
    merges_schema: bool,
    properties: CommitProperties,
) -> ChangeResult:
    events = _events(snapshot, rows, rules, merges_schema)
    current = _current_rows(snapshot, events, rules)
    changes = (history_rows if rules.keeps_history else latest_rows)(
        events, current, _deletions(deleted_keys, events, rules), rules
    )
    _record_deletions(deleted_keys, changes, rules, engine)
    last = snapshot.transactions.get(_APPLICATION)
    order = Transaction(_APPLICATION, 0 if last is None else last.version + 1)
    ordered = replace(properties, app_transactions=(*(properties.app_transactions or ()), order))
    result = _merge(
        snapshot,
        changes.rows,
        [*rules.keys, *([START] if rules.keeps_history else ())],
        _clauses(changes.rows, rules),
        engine,
        ordered,
    )
    if isinstance(result, EarlierChangeResult):  # of another run, which had not seen the deletions of this one
        raise ConcurrentTransactionError(
            "another run has applied change events at the same time",
            table=snapshot.store.root,
            version=result.version,
            hint="Run it again",
        )
    version = result.version
    if version is None and (properties.app_transactions or events.is_delete.any()):
        # No row changes. But a run that has read the deletions before this run or a killed run recorded its own must
        # not commit its rows.
        empty = Incoming(None, snapshot.schema.to_arrow())
        written = write(snapshot.store, empty, Write("append"), engine, snapshot=snapshot, commit_properties=ordered)
        version = written.version
    counts = {"numEvents": len(rows), "numDuplicateEvents": events.duplicate_count}
    return replace(result, version=version, metrics={**result.metrics, **counts})


def _with_history(snapshot: Snapshot, events: pa.Table, rules: ChangeRules) -> Snapshot:
    """The snapshot of a table that has the columns of its history; an empty table gets them.

    Raises:
        InvalidArgumentError: the table has rows, and lacks these columns.
    """
    if not rules.keeps_history or START in snapshot.schema:
        return snapshot
    rules.data_columns(events.column_names)
    if snapshot.files.num_rows:
        raise invalid_rules(
            f"the table has rows and no column {START!r}; expected an empty table, or one with history",
            "Apply the events to a new table",
        )
    kind = Schema.from_arrow(events.schema).field(rules.sequence_by).type
    add_columns(snapshot, [Field(START, kind), Field(END, kind)])
    return load_snapshot(snapshot.store)


def _events(snapshot: Snapshot, rows: pa.Table, rules: ChangeRules, merges_schema: bool) -> ChangeEvents:
    """The events in the table's types.

    Raises:
        InvalidArgumentError: the table lacks a column of the events, and ``merges_schema`` is false.
    """
    columns = rules.data_columns(rows.column_names)
    table = snapshot.schema
    unknown = [name for name in columns if name not in table]
    if unknown and not merges_schema:
        raise invalid_rules(
            f"the events have the column {unknown[0]!r}, which the table does not have",
            "Name it in except_columns, or pass merge_schema=True",
        )
    own = Schema.from_arrow(rows.schema)
    is_delete: Any = pa.nulls(len(rows), pa.bool_())
    if rules.apply_as_deletes is not None:
        condition = parse(rules.apply_as_deletes, own, table=snapshot.store.root)
        is_delete = matches(condition, align(rows, own))
    targets = {name: table.get(name) or own.field(name) for name in columns}
    if rules.ignore_null_updates:
        targets |= {field.name: field for field in table.fields if _is_plain(field) and field.name not in targets}
    if rules.keeps_history:
        targets[rules.sequence_by] = table.get(START) or own.field(rules.sequence_by)
    fields = Schema([Field(name, field.type) for name, field in targets.items()])
    selected = rows.select([own.field(name).name for name in dict.fromkeys((*columns, rules.sequence_by))])
    return change_events(align(selected, fields, table=snapshot.store.root), is_delete, rules)


def _is_plain(column: Field) -> bool:
    """Whether a column gets its values from events, and not from its expression or from this module."""
    return column.name not in (START, END, SEQUENCES) and not is_computed(column)


def _current_rows(snapshot: Snapshot, events: ChangeEvents, rules: ChangeRules) -> pa.Table:
    """The table's rows with keys of the events: only the columns on which the changes depend.

    Raises:
        InvalidArgumentError: the table lacks a key, or has rows without a sequence.
    """
    table = snapshot.schema
    for name in rules.keys:
        if name not in table:
            raise invalid_rules(f"the table has no column {name!r}; expected every key")
    order = [START, END] if rules.keeps_history else [rules.sequence_by]
    if order[0] not in table and snapshot.files.num_rows:
        raise invalid_rules(
            f"the table has rows and no column {order[0]!r}; expected the sequence of each row",
            "Add this column to the table and update it, or apply the events to a new table",
        )
    names = [*rules.keys, *order]
    if rules.ignore_null_updates:
        names += [*events.rows.column_names, SEQUENCES]
    rows = rows_with_keys(
        snapshot, events.rows.select(list(rules.keys)), [name for name in dict.fromkeys(names) if name in table]
    )
    if order[0] not in table:
        rows = rows.append_column(order[0], pa.nulls(len(rows), events.sequence.type))
    return rows


def _deletions(store: ObjectStore, events: ChangeEvents, rules: ChangeRules) -> pa.Table:
    """The recorded deletions of the events' keys."""
    names = [*rules.keys, rules.sequence_by]
    empty = events.rows.select(names).slice(0, 0)
    try:
        snapshot = load_snapshot(store)
    except TableNotFoundError:
        return empty
    rows = rows_with_keys(snapshot, events.rows.select(list(rules.keys)), names)
    return rows.cast(empty.schema)


def _record_deletions(store: ObjectStore, changes: RowChanges, rules: ChangeRules, engine: Engine) -> None:
    """Record new deletions: the last deletion of each key, or with history all of them."""
    if not len(changes.deleted_keys):
        return
    try:
        snapshot = load_snapshot(store)
    except TableNotFoundError:
        create_table(store, Schema.from_arrow(changes.deleted_keys.schema), mode="ignore")
        snapshot = load_snapshot(store)
    sequence = rules.sequence_by
    keys = [*rules.keys, *([sequence] if rules.keeps_history else ())]
    later = f"source.{quoted(sequence)} > target.{quoted(sequence)}"
    clauses: list[_Clause] = [("not matched", "insert", None, changes.deleted_keys.column_names)]
    if not rules.keeps_history:
        clauses.append(("matched", "update", later, [sequence]))
    _merge(snapshot, changes.deleted_keys, keys, clauses, engine, None)


def _clauses(rows: pa.Table, rules: ChangeRules) -> list[_Clause]:
    columns = [name for name in rows.column_names if name != ACTION]
    updated = [END] if rules.keeps_history and not rules.ignore_null_updates else columns
    return [
        ("matched", "delete", f"source.{ACTION} = 'delete'", ()),
        ("matched", "update", f"source.{ACTION} = 'update'", updated),
        ("not matched", "insert", f"source.{ACTION} = 'insert'", columns),
    ]


def _merge(
    snapshot: Snapshot,
    rows: pa.Table,
    keys: Sequence[str],
    clauses: Sequence[_Clause],
    engine: Engine,
    properties: CommitProperties | None,
) -> ChangeResult:
    """Merge rows by keys that are never NULL; the table gets new columns of the rows."""
    table = snapshot.store.root
    source = Schema.from_arrow(rows.schema)
    new_columns = [field for field in source.fields if field.name not in snapshot.schema]
    columns = Schema([*snapshot.schema.fields, *new_columns])
    names = MergeNamespace(columns, source)
    condition = " AND ".join(f"target.{quoted(name)} = source.{quoted(name)}" for name in keys)
    plan = []
    for case, action, predicate, assigned in clauses:
        values: Mapping[str, Any] | None = None
        if action != "delete":
            values = {
                columns.field(name).name: parse_value(f"source.{quoted(name)}", columns.field(name), names, table=table)
                for name in assigned
            }
        chosen = None if predicate is None else parse(predicate, names, table=table)
        plan.append(MergeClause(case, action, chosen, values))
    return merge(
        snapshot,
        rows,
        parse(condition, names, table=table),
        tuple(plan),
        engine,
        merges_schema=True,
        commit_properties=properties,
    )
