"""Application transactions: the ``txn`` actions that make a write idempotent (PROTOCOL.md, section Transaction
Identifiers). A concurrent commit of the same application is a conflict (``conflicts.checker``)."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse_lib.errors import ConcurrentTransactionError, InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.snapshot import Snapshot


def add_transaction(transactions: dict[str, Transaction], transaction: Transaction, table: str) -> None:
    """Add a transaction to ``transactions``, the transactions of a commit by application id.

    Raises:
        InvalidArgumentError: the commit has another version of the same application.
    """
    earlier = transactions.setdefault(transaction.app_id, transaction)
    if earlier.version != transaction.version:
        raise InvalidArgumentError(
            f"the commit would write the versions {earlier.version} and {transaction.version} of the application "
            f"{excerpt(transaction.app_id)}",
            table=table,
            hint="Give one transaction for each application",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )


def check_transactions(transactions: Iterable[Transaction], snapshot: Snapshot) -> None:
    """Check that the snapshot has none of the transactions, before an operation does any work.

    Raises:
        ConcurrentTransactionError: the snapshot has one of them (``duplicate_error``).
    """
    error = duplicate_error(transactions, snapshot, snapshot.store.root)
    if error is not None:
        raise error


def duplicate_error(
    transactions: Iterable[Transaction], snapshot: Snapshot | None, table: str
) -> ConcurrentTransactionError | None:
    """The error for the first of ``transactions`` that the snapshot has; None if it has none of them.

    The snapshot has a transaction if its txn version for the application is equal to or higher than the transaction's.
    """
    committed = snapshot.transactions if snapshot is not None else {}
    for transaction in transactions:
        latest = committed.get(transaction.app_id)
        if latest is not None and latest.version >= transaction.version:
            return ConcurrentTransactionError(
                f"the table already has txn version {latest.version} of the application "
                f"{excerpt(transaction.app_id)}, so txn version {transaction.version} is not written",
                table=table,
                version=snapshot.version if snapshot is not None else 0,
                hint=f"Go on with txn version {latest.version + 1}",
            )
    return None
