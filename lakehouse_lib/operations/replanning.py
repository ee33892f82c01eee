"""Commit a change of a table's files; plan it again after winning commits that changed the same files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from lakehouse_lib.errors import CommitFailedError, DeltaError
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of
from lakehouse_lib.transaction.application_transactions import check_transactions
from lakehouse_lib.transaction.commit_properties import CommitProperties
from lakehouse_lib.transaction.conflicts.checker import find_change


class Change(Protocol):
    """A change of a table's files that can be planned again on a later version."""

    @property
    def replans(self) -> tuple[type[CommitFailedError], ...]:
        """The conflicts after which the change is planned again, on the latest version."""

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction | None:
        """The transaction that makes the change to this version; None: this version needs no change.

        Args:
            lost: the conflict of the previous transaction, which is raised if the change cannot be planned again; None:
                this is the first plan.
        """

    def discard(self, *, committed: bool) -> None:
        """Delete the files that the change wrote and that no version refers to.

        Args:
            committed: whether the last transaction is committed, so that its files stay.
        """


class CommittedChange(NamedTuple):
    """The version on which a change was last planned, and the version that it created; None: it committed nothing."""

    read_version: int
    version: int | None


def commit_change(snapshot: Snapshot, change: Change, properties: CommitProperties | None) -> CommittedChange:
    """Commit a change; plan it again after each conflict in ``Change.replans``.

    If nothing is committed, the files that the change wrote are deleted. If it is unknown whether the commit happened,
    these files stay, because a version may refer to them.

    Raises:
        ConcurrentTransactionError: the table has an application transaction of the properties.
        CommitFailedError: an incompatible concurrent change of metadata or protocol, or a conflict that is not in
            ``Change.replans``.
        CommitUnknownError: the store gave no answer to the commit.
        DeltaError: another error of the plan or of the commit; nothing is committed.
    """
    lost: CommitFailedError | None = None
    while True:
        with _discarding(change, BaseException):  # nothing is committed yet
            check_transactions(() if properties is None else properties.app_transactions or (), snapshot)
            transaction = change.plan(snapshot, lost)
        # Another error, such as KeyboardInterrupt, may come after the commit file was put, so the files stay.
        with _discarding(change, DeltaError):
            outcome = None if transaction is None else transaction.commit(properties)
        if outcome is None:
            change.discard(committed=True)
            return CommittedChange(snapshot.version, None)
        if not isinstance(outcome, Conflict):
            version = version_of(outcome)
            change.discard(committed=True)
            return CommittedChange(snapshot.version, version)
        lost = outcome.error
        with _discarding(change, BaseException):
            snapshot = _latest(snapshot, lost, change.replans)


def _latest(snapshot: Snapshot, lost: CommitFailedError, replans: tuple[type[CommitFailedError], ...]) -> Snapshot:
    """The latest version, on which a change is planned again after a conflict on ``snapshot``.

    Raises:
        CommitFailedError: metadata or protocol have changed incompatibly, or the conflict is not in ``replans``.
    """
    latest = snapshot.update()
    before, after = ((side.protocol, side.metadata) for side in (snapshot, latest))
    # ``lost`` is only the first conflict. If a later commit changed metadata or protocol incompatibly, the change must
    # not be planned again.
    breaking = find_change(before, after, range(snapshot.version + 1, latest.version + 1), latest.store)
    if breaking is not None:
        raise breaking from lost
    if not isinstance(lost, replans):
        raise lost
    return latest


@contextmanager
def _discarding(change: Change, kind: type[BaseException]) -> Iterator[None]:
    """Delete the files of a change after an error of this kind."""
    try:
        yield
    except kind:
        change.discard(committed=False)
        raise
