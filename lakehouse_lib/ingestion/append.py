"""Append rows to a table at most once. A batch appends its valid rows and its rejected rows in this way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import TableNotFoundError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.write.planned_write import PlannedWrite, Write, plan_write
from lakehouse_lib.operations.write.write import commit_files
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.commit_properties import CommitProperties


def snapshot_if_any(store: ObjectStore) -> Snapshot | None:
    """The table's latest snapshot; None if the table does not exist."""
    try:
        return load_snapshot(store)
    except TableNotFoundError:
        return None


def last_batch(snapshot: Snapshot | None, app_id: str) -> int | None:
    """The number of the last batch in the table's ``txn`` action of ``app_id``; None if it has no such action."""
    if snapshot is None or app_id not in snapshot.transactions:
        return None
    return snapshot.transactions[app_id].version


def rejects_application(source: str, identity: str, round_number: int = 0) -> str:
    """The application id under which a round of a batch commits its rejected rows to the quarantine.

    Tables that share a quarantine may have sources of the same name, so the id has the identity of the intent log.
    """
    return f"{source}@{identity}" + (f"/{round_number}" if round_number else "")


def is_rejects_application(app_id: str, source: str, identity: str) -> bool:
    """Whether ``app_id`` is the result of ``rejects_application`` for some round."""
    own = rejects_application(source, identity)
    return app_id == own or app_id.startswith(f"{own}/")


def plan_append(
    store: ObjectStore, schema: Schema, *, partition_by: Sequence[str] = (), target_file_size: int | None = None
) -> PlannedWrite:
    """Plan an append to the latest version of a table, which is created if it does not exist.

    Args:
        schema: the schema of a new table; an existing table gets the columns that it lacks.
        partition_by: partition columns of a new table.
        target_file_size: as of ``Source``.

    Raises:
        InvalidSchemaError: every column is a partition column, so that data files would hold no column.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """
    snapshot = snapshot_if_any(store)
    columns = None if snapshot is not None else partition_by
    append = Write("append", "merge", columns, target_file_size=target_file_size)
    return plan_write(store, schema.to_arrow(), append, snapshot)


def commit_once(
    plan: PlannedWrite,
    files: pa.Table,
    engine: Engine,
    *,
    app_id: str,
    number: int,
    numbered: Sequence[str] = (),
    before_commit: Callable[[], None] | None = None,
    reads: Sequence[Predicate | None] = (),
    metadata: Mapping[str, Any] | None = None,
) -> int:
    """Commit files and ``txn(app_id, number)`` together; returns the version.

    If nothing is committed, the files are deleted.

    Args:
        numbered: the identity columns whose numbers were assigned to the rows of the files.
        before_commit: called before the commit; if it raises, nothing is committed.
        reads: the predicates of the table's rows on which the files depend.
        metadata: extra fields of the commitInfo.

    Raises:
        ConcurrentTransactionError: the table has this batch or a later one; nothing was committed.
        CommitFailedError: a concurrent commit conflicts; nothing was committed.
        CommitUnknownError: the store gave no answer to the commit, so the files are not deleted.
    """
    result = commit_files(
        plan,
        files,
        engine,
        numbered=numbered if len(files) else (),
        commit_properties=CommitProperties(metadata, app_transactions=(Transaction(app_id, number),)),
        before_commit=before_commit,
        reads=reads,
    )
    assert result.version is not None  # an append always commits
    return result.version
