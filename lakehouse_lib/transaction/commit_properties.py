"""Properties of a commit that a caller may set.

They are checked before an operation writes data files: a commit that fails later would leave those files behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.transaction.commit_info import check_custom_metadata


@dataclass(frozen=True)
class CommitProperties:
    """Properties of a commit that a caller may set.

    Args:
        custom_metadata: extra fields of commitInfo. They do not replace fields that the commit sets (operation, time).
            A field that Delta defines needs Delta's type: text for ``userId``, ``userName``, ``userMetadata`` and
            ``clusterId``, a dictionary for ``tags`` (of text), ``job``, ``notebook`` and ``lastManifestCommit``.
        max_commit_retries: attempts after a lost race; default 50.
        app_transactions: txn actions of the commit (idempotent writes), at most one for each application.

    Raises:
        InvalidArgumentError: the metadata does not map names to JSON values, or a value does not have the type of
            Delta's field; the retries are not a whole number from 0; a transaction has another type, or two have the
            same application.
    """

    custom_metadata: Mapping[str, Any] = field(default_factory=dict)
    max_commit_retries: int | None = None
    app_transactions: tuple[Transaction, ...] = ()

    def __post_init__(self) -> None:
        check_custom_metadata(self.custom_metadata)
        retries = self.max_commit_retries
        if retries is not None and (type(retries) is not int or retries < 0):
            raise InvalidArgumentError(
                f"max_commit_retries is {excerpt(retries)}; expected a whole number from 0, or None",
                hint="None is the default of 50",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        _check_transactions(self.app_transactions)


def check_commit_properties(properties: object, *, table: str) -> None:
    """Check the ``commit_properties`` argument of an operation.

    Raises:
        InvalidArgumentError: the value is not a ``CommitProperties`` of this library; the ``deltalake`` package has a
            class of the same name.
    """
    if properties is not None and not isinstance(properties, CommitProperties):
        raise InvalidArgumentError(
            f"commit_properties is {excerpt(properties)} of type {type(properties).__module__}."
            f"{type(properties).__qualname__}",
            table=table,
            hint="Give lakehouse_lib.CommitProperties(custom_metadata=..., app_transactions=...), or leave it out",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )


def _check_transactions(transactions: object) -> None:
    if not isinstance(transactions, list | tuple) or not all(
        isinstance(transaction, Transaction) for transaction in transactions
    ):
        raise InvalidArgumentError(
            f"app_transactions is {excerpt(transactions)}; expected a list of transactions",
            hint='Give a list: [lakehouse_lib.Transaction("my job", 7)]',
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )
    by_application: dict[str, Transaction] = {}
    for transaction in transactions:
        first = by_application.setdefault(transaction.app_id, transaction)
        if first is not transaction:
            # The actions of a commit have no order, so it is undefined which version is the later one.
            raise InvalidArgumentError(
                f"app_transactions has the versions {first.version} and {transaction.version} of the application "
                f"{excerpt(transaction.app_id)}",
                hint="Give one transaction for each application",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
