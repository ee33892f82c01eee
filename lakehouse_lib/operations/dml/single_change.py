"""Change rows at most once, even if the change is tried again. Application transactions in the commit identify it.

A try may end without an answer (a killed job, a store that stopped answering) after its commit exists. The next try
finds the application transactions of the commit in the table, and changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import CommitFailedError, VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.operations.dml.row_change import RowChange, RowOperation, change_rows
from lakehouse_lib.operations.results import ChangeResult, EarlierChangeResult
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.commit_properties import CommitProperties

logger = logging.getLogger(__name__)

#: A commit file may be this many ms older than its txn, because the clocks of the store and of the writer differ.
_CLOCK_SKEW = 3_600_000


def change_once(
    snapshot: Snapshot,
    operation: RowOperation,
    engine: Engine,
    *,
    rewrite: bool = False,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Change rows by ``change_rows``, unless the table already has all application transactions of the properties.

    The read version may have these transactions, or a winning commit may have added them.

    Returns:
        The result of this change; an ``EarlierChangeResult`` if the table has its application transactions.

    Raises:
        ConcurrentTransactionError: the table has some of the application transactions, but not all of them.
        CommitFailedError, CommitUnknownError: as ``change_rows``.
    """
    transactions = (commit_properties.app_transactions if commit_properties is not None else None) or ()
    try:
        return change_rows(snapshot, operation, engine, rewrite=rewrite, commit_properties=commit_properties)
    except CommitFailedError:
        # The conflict may be about files or metadata, and with the commit of the earlier try.
        latest = snapshot.update() if transactions else snapshot
        if not transactions or not all(_has(latest, transaction) for transaction in transactions):
            raise
    return _earlier_result(latest, transactions[0], RowChange(operation, engine, rewrite).zero_metrics())


def _has(snapshot: Snapshot, transaction: Transaction) -> bool:
    latest = snapshot.transactions.get(transaction.app_id)
    return latest is not None and latest.version >= transaction.version


def _earlier_result(snapshot: Snapshot, transaction: Transaction, metrics: Mapping[str, Any]) -> EarlierChangeResult:
    """The result of the commit with this application transaction.

    Args:
        metrics: the metrics of a change without rows; the commit's own metrics replace them.
    """
    commit = _commit_of(snapshot.store, transaction, snapshot.transactions[transaction.app_id])
    version = None if commit is None else commit.version
    logger.warning(
        "%s already has version %d of the application %r, committed in %s; nothing was changed",
        snapshot.store.root,
        transaction.version,
        transaction.app_id,
        "a version that is no longer in the log" if version is None else f"version {version}",
    )
    info = {} if commit is None else commit.info
    read_version = info.get("readVersion")
    return EarlierChangeResult(
        snapshot.store.root,
        read_version if isinstance(read_version, int) else snapshot.version,
        version,
        {**metrics, **_numbers(info.get("operationMetrics"))},
    )


def _commit_of(store: ObjectStore, transaction: Transaction, latest: Transaction) -> CommitActions | None:
    """The commit with this application transaction; None if the log does not have it.

    Args:
        latest: the application's transaction in the latest version. If it has the same version as ``transaction``,
            commits that are older than its ``lastUpdated`` are not read.
    """
    oldest = (latest.last_updated or 0) - _CLOCK_SKEW if latest.version == transaction.version else 0
    for listed in reversed(list_commits(store)):
        if listed.modified < oldest:
            return None
        with contextlib.suppress(VersionNotFoundError):  # it was cleaned up after it was listed
            commit = read_commit(store, listed.version, size=listed.size)
            if any((t.app_id, t.version) == (transaction.app_id, transaction.version) for t in commit.transactions):
                return commit
    return None


def _numbers(metrics: object) -> dict[str, Any]:
    """The operationMetrics of a commitInfo as numbers. In the log, each value is the text of a number."""
    numbers = {}
    for name, text in metrics.items() if isinstance(metrics, Mapping) else ():
        with contextlib.suppress(TypeError, ValueError):
            numbers[name] = json.loads(text)
    return numbers
