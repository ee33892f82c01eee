"""``apply_changes``: apply the change events of a source to a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.ingestion.change_events.apply import apply_changes as apply_events
from lakehouse_lib.ingestion.change_events.apply import create_target
from lakehouse_lib.ingestion.change_events.rules import ChangeRules
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import open_store
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.verbs.merger import rows_of
from lakehouse_lib.transaction.commit_properties import CommitProperties


def apply_changes(
    table_or_uri: str | os.PathLike[str] | DeltaTable,
    events: Any,
    *,
    keys: Sequence[str],
    sequence_by: str,
    apply_as_deletes: str | None = None,
    except_columns: Sequence[str] = (),
    ignore_null_updates: bool = False,
    stored_as_scd_type: int = 1,
    merge_schema: bool = False,
    deleted_keys: str | os.PathLike[str] | None = None,
    storage_options: dict[str, str] | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Apply change events of a source to a table in one commit; see docs/change-events.md.

    The resulting table depends only on the set of events, not on their order or batches, or on repeated events, if all
    events have the same columns or ``ignore_null_updates`` is True. If the table does not exist, it is created.

    Args:
        events: data as in ``write_deltalake``; it is read into memory.
        keys: the columns that identify a row.
        sequence_by: the column that orders the events of a key.
        apply_as_deletes: a SQL condition on the columns of the events. An event for which it is true deletes the row of
            its key. None: no event deletes a row.
        except_columns: columns of the events that are not columns of the table.
        ignore_null_updates: where an event has NULL, keep the value of the table.
        stored_as_scd_type: 1: the table has the latest row of each key; 2: the table has all rows, each valid from
            ``__start_at`` until ``__end_at``.
        merge_schema: the table gets the columns that only the events have.
        deleted_keys: the location of the table that records deletions; default: the location of the table with
            ``_deleted_keys`` at its end.
        storage_options: the options of the stores of both tables; an open table keeps its own options.

    Returns:
        Metrics: delta-spark's metrics of MERGE, numEvents and numDuplicateEvents.

    Raises:
        InvalidArgumentError: the rules do not fit the events or the table, or a sequence is not unique.
        DeltaError: as ``DeltaTable.merge``; nothing is committed.
    """
    if isinstance(table_or_uri, DeltaTable):
        table, store = table_or_uri, table_or_uri.store
    else:
        table, store = None, open_store(table_or_uri, storage_options)
    rules = ChangeRules(
        tuple(keys), sequence_by, apply_as_deletes, tuple(except_columns), ignore_null_updates, stored_as_scd_type
    )
    rows = rows_of(events, store.root)
    if table is None:
        create_target(store, Schema.from_arrow(rows.schema), rules)
    result = apply_events(
        store,
        rows,
        rules,
        table.engine if table is not None else ArrowEngine(),
        deleted_keys=open_store(deleted_keys or f"{store.root.rstrip('/')}_deleted_keys", storage_options),
        merges_schema=merge_schema,
        commit_properties=commit_properties,
    )
    if table is not None:
        table._move_on(result.version)
    return result
