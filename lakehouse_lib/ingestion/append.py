"""The two commits of a batch, each of which happens at most once: quarantined rows, then the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.errors import DeltaError, MetadataChangedError, TableNotFoundError
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.write.create import describe, new_metadata, protocol_for
from lakehouse_lib.operations.write.write import check_rows_are_kept, with_new_columns
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import Schema, TableLayout
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of


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
    metadata: Metadata | None
    if snapshot is None:
        metadata = new_metadata(schema, partition_by, table=store.root)
    else:
        snapshot.check_writable()  # before anything is written or decided
        merged = with_new_columns(snapshot, schema.to_arrow())
        metadata = merged if merged != snapshot.metadata else None
    current = metadata or (snapshot.metadata if snapshot is not None else None)
    assert current is not None
    target = WriteTarget(
        store,
        TableLayout(Schema.from_json(current.schema_string), current.partition_columns),
        current.configuration,
        target_file_size,
    )
    check_rows_are_kept(target)
    files = engine.write(rows, target) if rows is not None else None
    if before_commit is not None:
        try:
            before_commit()
        except DeltaError:
            if files is not None:
                discard(store, files)
            raise
    while True:
        parameters = {"mode": "Append", "partitionBy": list(current.partition_columns)}
        transaction = OptimisticTransaction(
            snapshot, store, "WRITE", {**describe(current), **parameters} if snapshot is None else parameters
        )
        if metadata is not None:
            protocol = protocol_for(metadata, snapshot.protocol if snapshot is not None else None)
            if snapshot is None or protocol != snapshot.protocol:
                transaction.set_protocol(protocol)
            transaction.set_metadata(metadata)
        if files is not None:
            transaction.add(files)
            transaction.metrics["numFiles"] = files.num_rows
        transaction.set_transaction(app_id, number)
        result = transaction.commit()
        if not isinstance(result, Conflict):
            return version_of(result)
        if snapshot is None and isinstance(result.error, MetadataChangedError):
            # Two first batches at once, of two sources, say: the table is there now; append to it, if it is the same.
            snapshot = load_snapshot(store)
            if snapshot.layout == target.layout:
                metadata, current = None, snapshot.metadata
                continue
        if files is not None:
            discard(store, files)
        raise result.error
