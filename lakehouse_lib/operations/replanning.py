"""Commit a change of a table's files, planned again where winning commits have changed the same files."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lakehouse_lib.errors import CommitFailedError, DeltaProtocolError
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties
from lakehouse_lib.transaction.conflict_checker import find_change


class Change(Protocol):
    """A change of files that can be planned on one version after another."""

    @property
    def replans(self) -> tuple[type[CommitFailedError], ...]:
        """The conflicts after which the change is planned on the latest version."""

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction | None:
        """The transaction that makes the change to this version; None when it leaves nothing to change.

        Args:
            lost: the conflict that the transaction of the version before met; raised when the change cannot go on.
        """

    def discard(self, *, committed: bool) -> None:
        """Delete the files that the change wrote: those that its last transaction does not name, or all of them."""


class CommittedChange(NamedTuple):
    """The version that a change was planned on last, and the one that it is; None: nothing was left to change."""

    read_version: int
    version: int | None


def commit_change(snapshot: Snapshot, change: Change, properties: CommitProperties | None) -> CommittedChange:
    """Commit a change, planned anew after a conflict that allows for it.

    Where nothing is committed, the files that the change wrote are deleted; where the store does not say whether the
    commit happened, they stay, for a version may name them.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or a conflict that the change does not plan again
            after.
        CommitUnknownError: the store stopped answering while it was asked to commit.
        DeltaProtocolError: the change breaks a rule of the table.
    """
    lost: CommitFailedError | None = None
    while True:
        try:
            transaction = change.plan(snapshot, lost)
            outcome = None if transaction is None else transaction.commit(properties)
        except (CommitFailedError, DeltaProtocolError):
            change.discard(committed=False)
            raise
        if outcome is None:
            change.discard(committed=True)
            return CommittedChange(snapshot.version, None)
        if not isinstance(outcome, Conflict):
            version = version_of(outcome)
            change.discard(committed=True)
            return CommittedChange(snapshot.version, version)
        lost = outcome.error
        latest = snapshot.update()
        before, after = ((side.protocol, side.metadata) for side in (snapshot, latest))
        # A file that is gone is only what was met first.
        breaking = find_change(before, after, range(snapshot.version + 1, latest.version + 1), latest.store)
        if breaking is not None or not isinstance(lost, change.replans):
            change.discard(committed=False)
            raise (breaking or lost) from (lost if breaking is not None else None)
        snapshot = latest
