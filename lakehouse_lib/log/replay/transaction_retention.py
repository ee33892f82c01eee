"""The expiry of the transactions of applications: ``delta.setTransactionRetentionDuration``."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.protocol.table_properties import TRANSACTION_RETENTION


def unexpired_transactions(
    transactions: Mapping[str, Transaction], configuration: Mapping[str, str], now: int
) -> dict[str, Transaction]:
    """The transactions that have not expired, by application. Snapshots and checkpoints have only these.

    A transaction expires if the table has the property, and its ``lastUpdated`` is at least this long before ``now``.
    As in delta-spark, a transaction without ``lastUpdated`` has then expired, too.

    Args:
        now: ms since the epoch.
    """
    try:
        retention = TRANSACTION_RETENTION.of(configuration)
    except InvalidArgumentError:  # another writer has accepted the value; to keep a transaction does no harm
        retention = None
    if retention is None:
        return dict(transactions)
    since = now - int(retention.total_seconds() * 1000)
    return {
        name: transaction
        for name, transaction in transactions.items()
        if transaction.last_updated is not None and transaction.last_updated > since
    }
