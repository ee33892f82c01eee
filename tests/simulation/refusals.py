"""Checks that a refused operation had a conflict; otherwise a library that refuses every loser of a race would pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    TooManyRetriesError,
)
from lakehouse_lib.protocol.actions import Transaction

_READERS = ("increment", "delete", "overwrite", "insert")
_MANY_RETRIES = 50


class Version(Protocol):
    """The content of a version that the check needs."""

    @property
    def files(self) -> frozenset[str]: ...
    @property
    def applications(self) -> Mapping[str, int]: ...
    @property
    def operation(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Attempt:
    """A commit that an actor attempts.

    Attributes:
        operation: the operation in its commit.
        read: the read version.
        removes: the files that it would replace.
        retries: how many races it may lose; None: the library's limit.
    """

    operation: Mapping[str, Any]
    read: int
    removes: frozenset[str]
    transaction: Transaction | None
    retries: int | None


def has_reason(
    error: CommitFailedError,
    attempt: Attempt,
    versions: Sequence[Version],
    keys: Callable[[str], Collection[int]],
    is_there: Callable[[int], bool],
    *,
    reorders_appends: bool,
) -> bool:
    """Whether the version in the error has the content that the error reports.

    Args:
        versions: all versions.
        keys: the keys of the rows in a file. Files overlap as their statistics do: from the lowest key to the highest.
        is_there: whether the commit of a version still exists.
    """
    named = error.version
    if named is None:
        return False
    if type(error) is CommitFailedError:  # the log was cleaned up
        return attempt.read < named <= len(versions) and not all(
            is_there(number) for number in range(attempt.read, len(versions))
        )
    if isinstance(error, TooManyRetriesError):
        retries = _MANY_RETRIES if attempt.retries is None else attempt.retries
        return attempt.read + retries < named - 1 < len(versions)
    if isinstance(error, ConcurrentTransactionError):
        return _is_repeated(attempt, versions, named)
    if not attempt.read < named < len(versions):
        return False
    before, winner = versions[named - 1], versions[named]
    kind, did = attempt.operation["kind"], winner.operation["kind"]

    def is_read(path: str) -> bool:
        key = attempt.operation["key"]
        return kind in _READERS and (key is None or min(keys(path)) <= key <= max(keys(path)))

    match error:
        case MetadataChangedError():
            return bool(kind == did == "count")
        case ConcurrentAppendError():
            if did == "compact" or (did == "append" and reorders_appends):
                return False
            return any(is_read(path) for path in winner.files - before.files)
        case ConcurrentDeleteReadError():
            return any(is_read(path) for path in (before.files - winner.files) & versions[attempt.read].files)
        case ConcurrentDeleteDeleteError():
            return not attempt.removes.isdisjoint(before.files - winner.files)
    return False


def _is_repeated(attempt: Attempt, versions: Sequence[Version], named: int) -> bool:
    if attempt.transaction is None or not attempt.read <= named < len(versions):
        return False
    name = attempt.transaction.app_id
    batch = versions[named].applications.get(name, -1)
    if named == attempt.read:
        return batch >= attempt.transaction.version
    return batch != versions[named - 1].applications.get(name, -1)
