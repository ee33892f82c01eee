"""The two commits of a batch, each of which happens at most once: quarantined rows, then the rows themselves."""

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
    """The table's latest snapshot; None when there is no table yet."""
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None


def committed(snapshot: Snapshot | None, app_id: str) -> int | None:
    """The last batch that the table has under ``app_id``, by its ``txn``."""
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
    """Append rows together with ``txn(app_id, number)``, in one commit that also creates the table if need be.

    Args:
        rows: what the engine writes; None commits the ``txn`` alone.
        schema: the table's if it has to be created, else columns of it that the table lacks are added.
        partition_by: of a table that has to be created.
        before_commit: called when the rows are written and not yet committed; if it raises, nothing is.

    Returns:
        the version this is now.

    Raises:
        ConcurrentTransactionError: the table has this batch, or a later one, already; nothing was committed.
        CommitFailedError: another writer won; nothing was committed.
        InvalidSchemaError: columns of which data files hold none, so that rows would be lost.
        UnsupportedFeatureError: a writer feature this library does not have.
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
    assert result.version is not None  # of the mode "append"
    return result.version
