"""Append rows to a table at most once. A batch appends its valid rows and its quarantined rows in this way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.incoming import Incoming
from lakehouse_lib.errors import TableNotFoundError
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.commit_properties import CommitProperties


def snapshot_if_any(store: ObjectStore) -> Snapshot | None:
    """The table's latest snapshot; None without a table."""
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None


def committed(snapshot: Snapshot | None, app_id: str) -> int | None:
    """The last batch that the table has committed under ``app_id``, by its ``txn``; None without one."""
    if snapshot is None or app_id not in snapshot.transactions:
        return None
    return snapshot.transactions[app_id].version


def append_once(
    engine: Engine,
    store: ObjectStore,
    rows: Any | None,
    *,
    schema: Schema,
    partition_by: Sequence[str],
    app_id: str,
    number: int,
    target_file_size: int | None = None,
    before_commit: Callable[[], None] | None = None,
) -> int:
    """Append rows and ``txn(app_id, number)`` in one commit; create the table if it does not exist.

    Args:
        rows: rows in a form that the engine writes; None: commit the ``txn`` only.
        schema: the schema of a new table; an existing table gets the columns that it lacks.
        partition_by: partition columns of a new table.
        before_commit: called after the rows are written and before the commit; if it raises, nothing is committed.

    Returns:
        the committed version.

    Raises:
        ConcurrentTransactionError: the table has this batch or a later one; nothing was committed.
        CommitFailedError: a concurrent commit conflicts; nothing was committed.
        InvalidSchemaError: every column is a partition column, so that data files would hold no column.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """
    snapshot = snapshot_if_any(store)
    result = write(
        store,
        Incoming(rows, schema.to_arrow()),
        Write("append", "merge", None if snapshot is not None else partition_by, target_file_size=target_file_size),
        engine,
        snapshot=snapshot,
        commit_properties=CommitProperties(app_transactions=(Transaction(app_id, number),)),
        before_commit=before_commit,
    )
    assert result.version is not None  # the mode "append" always commits
    return result.version
