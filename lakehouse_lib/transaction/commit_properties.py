"""Properties of a commit that a caller may set.

They are checked before an operation writes data files. If the commit failed later, unreferenced files would be left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Transaction
from lakehouse_lib.transaction.commit_info import check_custom_metadata
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties


@dataclass(frozen=True)
class CommitProperties:
    """Properties of a commit that a caller may set.

    Args:
        custom_metadata: extra fields of commitInfo. They do not replace fields that the commit sets (operation, time).
            A field that Delta defines needs Delta's type: text for ``userId``, ``userName``, ``userMetadata`` and
            ``clusterId``, a dictionary for ``tags`` (of text), ``job``, ``notebook`` and ``lastManifestCommit``.
        max_commit_retries: the number of attempts after the first attempt lost the race to another writer; default 50.
        app_transactions: txn actions of the commit (idempotent writes), at most one for each application.
        post_commithook_properties: the hooks after the commit. Verbs set it from their argument of the same name.

    Raises:
        InvalidArgumentError: the metadata does not map names to JSON values, has ``inCommitTimestamp``,
            ``readVersion`` or ``version``, or has a value that does not have the type of Delta's field; the retries are
            not a whole number from 0; a transaction has another type, or two transactions have the same application.
    """

    custom_metadata: Mapping[str, Any] | None = None
    max_commit_retries: int | None = None
    app_transactions: Sequence[Transaction] | None = None
    post_commithook_properties: PostCommitHookProperties = field(default=PostCommitHookProperties(), kw_only=True)

    def __post_init__(self) -> None:
        if self.custom_metadata is not None:
            check_custom_metadata(self.custom_metadata)
        retries = self.max_commit_retries
        if retries is not None and (type(retries) is not int or retries < 0):
            raise InvalidArgumentError(
                f"max_commit_retries is {excerpt(retries)}; expected a whole number from 0, or None",
                hint="None is the default of 50",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        if self.app_transactions is not None:
            _check_transactions(self.app_transactions)


def single_commit(application: str | None) -> CommitProperties | None:
    """The properties of a commit that is made at most once, by txn version 1 of the application; None for None."""
    return None if application is None else CommitProperties(app_transactions=(Transaction(application, 1),))


def without_transactions(properties: CommitProperties | None) -> CommitProperties | None:
    """The properties without application transactions, which only one commit of an operation may have."""
    return None if properties is None else replace(properties, app_transactions=None)


def commit_properties_of(properties: object, hooks: object, *, table: str) -> CommitProperties | None:
    """The arguments ``commit_properties`` and ``post_commithook_properties`` of a verb as one value.

    Raises:
        InvalidArgumentError: a value is not of a class of this library.
    """
    check_commit_properties(properties, table=table)
    assert properties is None or isinstance(properties, CommitProperties)
    if hooks is None:
        return properties
    if not isinstance(hooks, PostCommitHookProperties):
        raise _wrong_class(
            "post_commithook_properties", hooks, "PostCommitHookProperties(create_checkpoint=...)", table
        )
    return replace(properties or CommitProperties(), post_commithook_properties=hooks)


def check_commit_properties(properties: object, *, table: str) -> None:
    """Check the ``commit_properties`` argument of an operation.

    Raises:
        InvalidArgumentError: the value is not a ``CommitProperties`` of this library; the ``deltalake`` package has a
            class of the same name.
    """
    if properties is not None and not isinstance(properties, CommitProperties):
        raise _wrong_class(
            "commit_properties", properties, "CommitProperties(custom_metadata=..., app_transactions=...)", table
        )


def _wrong_class(name: str, value: object, example: str, table: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} is {excerpt(value)} of type {type(value).__module__}.{type(value).__qualname__}",
        table=table,
        hint=f"Give lakehouse_lib.{example}, or leave it out",
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
