"""The outcome of a commit: ``Committed``, ``Conflict`` or ``Unknown``."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_lib.errors import CommitFailedError, CommitUnknownError, DeltaError


@dataclass(frozen=True)
class Committed:
    """The commit is version ``version``, after ``attempts`` puts."""

    version: int
    attempts: int


@dataclass(frozen=True)
class Conflict:
    """Nothing was committed; ``error`` has the reason (such as the winning commit and the overlap) and a hint."""

    error: CommitFailedError


@dataclass(frozen=True)
class Unknown:
    """The commit may be in the log: it is ``version`` if the commitInfo of this version has the txnId ``txn_id``.

    The files that it added may be in use, so only vacuum may delete them.
    """

    version: int
    txn_id: str
    error: CommitUnknownError

    @classmethod
    def of(cls, version: int, txn_id: str, cause: DeltaError, *, table: str) -> Unknown:
        """The outcome of a put, or of the check after it, that failed with ``cause``."""
        error = CommitUnknownError(
            f"the store did not confirm the commit, so this version may or may not be the commit: {cause.message}",
            table=table,
            version=version,
            hint=f"When the store answers again, history() shows whether the version's txnId is {txn_id}; "
            "without that check, only a write with an application transaction is safe to repeat",
        )
        error.__cause__ = cause
        return cls(version, txn_id, error)


Outcome = Committed | Conflict | Unknown


def version_of(outcome: Outcome) -> int:
    """The version of a commit that succeeded.

    Raises:
        CommitFailedError: nothing was committed; the table is unchanged.
        CommitUnknownError: it is not known whether the commit is in the log.
    """
    if isinstance(outcome, Committed):
        return outcome.version
    raise outcome.error
