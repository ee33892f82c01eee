"""The version that a transaction was planned on: whether the log still has it, and what follows it."""

from __future__ import annotations

from lakehouse_lib.errors import CommitFailedError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cleanup import may_free_the_next
from lakehouse_lib.log.latest import latest_version
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.base import ObjectStore


def check_base(snapshot: Snapshot, store: ObjectStore) -> CommitFailedError | None:
    """Check that the log still has the version that a transaction was planned on.

    A table that was deleted would get a commit after a gap and be unreadable; one that was deleted and created again
    would get a commit meant for another table. Where the version was cleaned up, the next version's name is free again,
    too, and a commit there would be lost.

    Returns:
        The error for a version that was cleaned up; None when the log has it.

    Raises:
        TableNotFoundError: the log is gone, or another table's.
    """
    commit_file = store.head(file_names.commit(snapshot.version))
    if commit_file is None:
        newest = latest_version(store)
        if newest is None or newest < snapshot.version:
            raise TableNotFoundError(
                f"the log ends at version {newest}" if newest is not None else "the log is gone",
                table=store.root,
                version=snapshot.version,
                hint="The table was deleted or replaced after it was opened; open it again",
            )
        if newest > snapshot.version:
            return outrun(store, snapshot.version + 1)
    try:
        snapshot.landmark.check(store, commit_file)
    except VersionNotFoundError as error:
        failed = outrun(store, snapshot.version + 1)
        failed.__cause__ = error
        return failed
    return None


def outrun(store: ObjectStore, version: int) -> CommitFailedError:
    """The error for a version whose name a cleanup has freed, or may have."""
    return CommitFailedError(
        "the log was cleaned up past the version this was planned on, so what it conflicts with is unknown",
        table=store.root,
        version=version,
        hint="Run it again on the new version",
    )


def may_follow_a_cleanup(snapshot: Snapshot, store: ObjectStore, now: int) -> bool:
    """Whether there are later versions, of which a cleanup of the log may take or have taken the next one.

    Args:
        now: ms since the epoch.
    """
    if not may_free_the_next(snapshot.configuration, snapshot.timestamp, now):
        return False
    newest = latest_version(store)
    return newest is not None and newest > snapshot.version
