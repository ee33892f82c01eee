"""What a caller may say about a commit.

What no log can hold is refused at once: an operation writes data files before it commits, and would leave them behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import Transaction

#: Fields of commitInfo that not every commit of this library has, and that readers take for the commit's own.
_RESERVED_FIELDS = frozenset(("inCommitTimestamp", "readVersion", "version"))
#: Fields of commitInfo and their kinds. Other engines cannot parse a commit, and so no table, that has another there.
_FIELDS = {
    "clusterId": "text",
    "job": "a dictionary",
    "lastManifestCommit": "a dictionary",
    "notebook": "a dictionary",
    "tags": "a dictionary of text",
    "userId": "text",
    "userMetadata": "text",
    "userName": "text",
}


@dataclass(frozen=True)
class CommitProperties:
    """What a caller may say about a commit.

    Args:
        custom_metadata: put as it is into commitInfo, but for what the commit says itself (its operation, its time).
            Where Delta has a field of the name, it is of its kind: text for ``userId``, ``userName``, ``userMetadata``
            and ``clusterId``, dictionaries for ``tags`` (of text), ``job``, ``notebook`` and ``lastManifestCommit``.
        max_commit_retries: attempts after a lost race; default 50.
        app_transactions: txn actions to put into the same commit (idempotent writes), one of each application.

    Raises:
        InvalidArgumentError: metadata that is not a mapping of names to JSON values, or of another kind than Delta's
            field; retries that are not a whole number from 0; transactions of another type, or two of one application.
    """

    custom_metadata: Mapping[str, Any] = field(default_factory=dict)
    max_commit_retries: int | None = None
    app_transactions: tuple[Transaction, ...] = ()

    def __post_init__(self) -> None:
        _check_metadata(self.custom_metadata)
        retries = self.max_commit_retries
        if retries is not None and (type(retries) is not int or retries < 0):
            raise InvalidArgumentError(
                f"max_commit_retries is {excerpt(retries)}",
                hint="Give a whole number from 0, or None for the default",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        _check_transactions(self.app_transactions)


def check_commit_properties(properties: object, *, table: str) -> None:
    """Check the ``commit_properties`` argument of an operation.

    Raises:
        InvalidArgumentError: neither ``CommitProperties`` nor None, such as the class of that name in ``deltalake``.
    """
    if properties is not None and not isinstance(properties, CommitProperties):
        raise InvalidArgumentError(
            f"commit_properties is {excerpt(properties)} of type {type(properties).__module__}."
            f"{type(properties).__qualname__}",
            table=table,
            hint="Give lakehouse_lib.CommitProperties(custom_metadata=..., app_transactions=...), or leave it out",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )


def _check_metadata(metadata: object) -> None:
    if not isinstance(metadata, Mapping) or not all(isinstance(name, str) for name in metadata):
        raise InvalidArgumentError(
            f"custom_metadata is {excerpt(metadata)}",
            hint="Give a dictionary from names to what JSON can hold",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )
    for name, value in metadata.items():
        if name in _RESERVED_FIELDS:
            raise InvalidArgumentError(
                f"custom_metadata has {name} = {excerpt(value)}, which is the commit's own to say",
                hint="Leave it out, or give it a name that Delta does not have",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        kind = _FIELDS.get(name)
        if kind is not None and value is not None and not _is_of(kind, value):
            raise InvalidArgumentError(
                f"custom_metadata has {name} = {excerpt(value)}, with which other engines could not read the table",
                hint=f"Give {kind}, as Delta has it there, or take another name",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
    try:
        # Python would write NaN and Infinity, and no other reader could open the table any more.
        json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"custom_metadata cannot be written as JSON: {error}",
            hint="Give text, finite numbers, booleans, lists and dictionaries of them",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        ) from error


def _is_of(kind: str, value: object) -> bool:
    if kind == "text":
        return isinstance(value, str)
    return isinstance(value, dict) and (kind == "a dictionary" or all(isinstance(item, str) for item in value.values()))


def _check_transactions(transactions: object) -> None:
    if not isinstance(transactions, list | tuple) or not all(
        isinstance(transaction, Transaction) for transaction in transactions
    ):
        raise InvalidArgumentError(
            f"app_transactions is {excerpt(transactions)}",
            hint='Give a list: [lakehouse_lib.Transaction("my job", 7)]',
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )
    by_application: dict[str, Transaction] = {}
    for transaction in transactions:
        first = by_application.setdefault(transaction.app_id, transaction)
        if first is not transaction:
            # Actions of a commit have no order, so neither version would count before the other.
            raise InvalidArgumentError(
                f"app_transactions has the versions {first.version} and {transaction.version} of the application "
                f"{excerpt(transaction.app_id)}",
                hint="Give each application one transaction a commit",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
