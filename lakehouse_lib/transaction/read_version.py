"""The check that the log still has the read version of a transaction."""

from __future__ import annotations

from lakehouse_lib.errors import CommitFailedError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names, latest_version
from lakehouse_lib.log.retention.cleanup import may_delete_next_version
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore


def check_read_version(snapshot: Snapshot, store: ObjectStore) -> CommitFailedError | None:
    """Check that the log still has the read version of a transaction.

    If the table was deleted, a commit would follow a gap and could not be read. If it was deleted and created again,
    the commit would be put into the log of another table. If a log cleanup deleted the read version, it may also have
    deleted the next version. A put of the next version would then succeed, but no reader would see the commit, because
    readers begin at a later checkpoint.

    Returns:
        The error if the version was cleaned up; None if the log has it.

    Raises:
        TableNotFoundError: the log no longer exists, or belongs to another table.
    """
    commit_file = store.head(file_names.commit(snapshot.version))
    if commit_file is None:
        newest = latest_version(store)
        if newest is None or newest < snapshot.version:
            raise TableNotFoundError(
                f"the log ends at version {newest}, before version {snapshot.version}, which was opened"
                if newest is not None
                else "the log no longer exists",
                table=store.root,
                version=snapshot.version,
                hint="The table was deleted or replaced after it was opened; open it again",
            )
        if newest > snapshot.version:
            return cleaned_up_error(store, snapshot.version + 1)
    try:
        snapshot.fingerprint.check(store, commit_file)
    except VersionNotFoundError as error:
        cleanup_error = cleaned_up_error(store, snapshot.version + 1)
        cleanup_error.__cause__ = error
        return cleanup_error
    return None


def cleaned_up_error(store: ObjectStore, version: int) -> CommitFailedError:
    """The error for a version that must not be put, because a log cleanup may have deleted a commit of this version."""
    return CommitFailedError(
        "log cleanup removed commits after the read version, so conflicts cannot be checked",
        table=store.root,
        version=version,
        hint="Run the operation again on the latest version",
    )


def may_follow_a_cleanup(snapshot: Snapshot, store: ObjectStore, now: int) -> bool:
    """Whether later versions exist, and a log cleanup may have deleted the next one or may do so soon.

    Args:
        now: ms since the epoch.
    """
    if not may_delete_next_version(snapshot.configuration, snapshot.timestamp, now):
        return False
    newest = latest_version(store)
    return newest is not None and newest > snapshot.version
