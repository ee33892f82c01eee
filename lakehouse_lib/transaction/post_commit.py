"""What follows a commit: its checksum, the checkpoint that is due, and the log's cleanup after that.

The commit has happened, so a failure here is only logged.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from lakehouse_lib.errors import RetentionError
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.checksum import (
    checksum_of,
    contradictions,
    next_checksum,
    of_commit,
    put_checksum,
    read_checksum,
)
from lakehouse_lib.log.cleanup import clean_up, is_due
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.protocol.table_properties import CHECKPOINT_INTERVAL, DELETED_FILE_RETENTION
from lakehouse_lib.snapshot import Snapshot

logger = logging.getLogger(__name__)


def run_hooks(before: Snapshot, commit: CommitActions) -> None:
    """Do what is due after a commit.

    Args:
        before: the snapshot the commit was planned on, which may be several versions older.
    """
    version = commit.version
    with _logged_failure("checksum", before, version):
        write_checksum(before, commit)
    with _logged_failure("checkpoint", before, version):
        if version % CHECKPOINT_INTERVAL.of(before.configuration, before.store.root):
            return
        latest = before.update()
        latest.check_writable()  # others have committed since, and a checkpoint leaves out what is unknown here
        checkpoint_snapshot(latest)
        with _logged_failure("checksum", latest, latest.version):
            complete_checksum(latest)
        with _logged_failure("cleanup of the log", latest, version):
            clean_up_log(latest, commit)


def write_checksum(before: Snapshot, commit: CommitActions) -> None:
    """Write the checksum of a commit from that of the version before, at a cost independent of the table's size.

    Where that is missing and the table has a checkpoint, none is written until the next checkpoint, which has all the
    numbers at hand; before the first checkpoint the whole table is in memory.
    """
    store, version = before.store, commit.version
    was_latest = before.version == version - 1
    previous = read_checksum(store, version - 1)
    if previous is None and was_latest and before.checkpoint_version is None:
        previous = checksum_of(before.state)
    if previous is None:
        return
    if was_latest:
        wrong = contradictions(previous, before.state, counting=False)
        if wrong:
            path = file_names.checksum(version - 1)
            logger.warning("nothing is built on the checksum %s of %s: %s", path, store.root, "; ".join(wrong))
            return
    checksum = next_checksum(previous, commit, newer_than=before.timestamp)
    if checksum is not None:
        put_checksum(store, version, checksum)


def complete_checksum(snapshot: Snapshot) -> None:
    """Write the checksum of this version from all of its files; a checksum that exists is compared instead."""
    if read_checksum(snapshot.store, snapshot.version) is not None:
        snapshot.compare_checksum()
        return
    counted = snapshot.ask(checksum_of)
    if counted is not None:
        checksum = of_commit(counted, read_commit(snapshot.store, snapshot.version).info)
        if checksum is not None:
            put_checksum(snapshot.store, snapshot.version, checksum)


def clean_up_log(latest: Snapshot, commit: CommitActions) -> None:
    """Delete what of the log has expired, unless the clock that the commit was made by was ahead of the store's."""
    if not is_due(latest.store, latest.metadata):
        return
    timestamp = int(commit.info["timestamp"])
    try:
        clock.check_by_commit(latest.store, timestamp, commit.version)
    except RetentionError as error:
        logger.warning("the log is not cleaned up after version %d: %s", commit.version, error)
        return
    clean_up(latest.store, latest.metadata, latest.protocol, now=timestamp)


def checkpoint_snapshot(snapshot: Snapshot) -> None:
    """Write the checkpoint of this version, forgetting removes older than the table's retention.

    It counts back from the time of the version's commit file where the clock is ahead of it: a remove that is forgotten
    too early would leave its file to the next vacuum.
    """
    retention = DELETED_FILE_RETENTION.of(snapshot.configuration, snapshot.store.root)
    since = min(clock.now(), snapshot.modified) - int(retention.total_seconds() * 1000)
    snapshot.ask(lambda state: write_checkpoint(snapshot.store, snapshot.version, state, tombstones_since=since))


@contextlib.contextmanager
def _logged_failure(what: str, snapshot: Snapshot, version: int) -> Iterator[None]:
    try:
        yield
    except Exception:
        logger.warning("no %s after version %d of %s", what, version, snapshot.store.root, exc_info=True)
