"""What came of a commit, as a value: ``Committed``, ``Conflict`` or ``Unknown``."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_lib.errors import CommitFailedError, CommitUnknownError, DeltaError


@dataclass(frozen=True)
class Committed:
    """The commit is version ``version``; ``attempts`` counts the puts it took."""

    version: int
    attempts: int


@dataclass(frozen=True)
class Conflict:
    """Nothing was committed; ``error`` says who won, what overlapped and what to do."""

    error: CommitFailedError


@dataclass(frozen=True)
class Unknown:
    """The store stopped answering: version ``version`` is this commit if its commitInfo has the txnId ``txn_id``.

    Files that it added may be in use, so only vacuum may delete them.
    """

    version: int
    txn_id: str
    error: CommitUnknownError

    @classmethod
    def of(cls, version: int, txn_id: str, cause: DeltaError, *, table: str) -> Unknown:
        """The outcome of a put that failed with ``cause`` before the store answered it."""
        error = CommitUnknownError(
            f"the store did not say that it has the commit, so it may be this version or may not be: {cause.message}",
            table=table,
            version=version,
            hint=f"When the store answers again, history() shows whether the version's txnId is {txn_id}; "
            "only what carries an application transaction is safe to be written again without looking",
        )
        error.__cause__ = cause
        return cls(version, txn_id, error)


Outcome = Committed | Conflict | Unknown


def version_of(outcome: Outcome) -> int:
    """The version of a commit that happened.

    Raises:
        CommitFailedError: it did not; the table is as it was.
        CommitUnknownError: whether it happened is not known.
    """
    if isinstance(outcome, Committed):
        return outcome.version
    raise outcome.error
