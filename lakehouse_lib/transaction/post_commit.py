"""Post-commit hooks: manifests, the checksum of the commit, the checkpoint that is due, and the log cleanup.

A failing hook is logged and does not fail the commit.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace

from lakehouse_lib.errors import RetentionError, VersionNotFoundError
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
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.log.retention import tombstones
from lakehouse_lib.log.retention.cleanup import clean_up, is_due
from lakehouse_lib.protocol.table_properties import CHECKPOINT_INTERVAL, EXPIRED_LOG_CLEANUP, SYMLINK_MANIFESTS
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.symlink_manifests import refresh_manifests
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties

logger = logging.getLogger(__name__)


def run_hooks(
    before: Snapshot | None, commit: CommitActions, properties: PostCommitHookProperties, store: ObjectStore
) -> None:
    """Run the hooks that are due after a commit.

    Args:
        before: the read version of the commit, which may be several versions older; None: the commit created the table.
    """
    version = commit.version
    metadata = commit.metadata or (before.metadata if before is not None else None)
    if metadata is not None and SYMLINK_MANIFESTS.is_on(metadata.configuration):
        with _logged_failure("manifests", store, version):
            refresh_manifests(load_snapshot(store) if before is None else before.update(), commit)
    if before is None:
        return
    with _logged_failure("checksum", store, version):
        write_checksum(before, commit)
    with _logged_failure("checkpoint", store, version):
        is_interval_over = version % CHECKPOINT_INTERVAL.of(before.configuration, store.root) == 0
        makes_checkpoint = is_interval_over and properties.create_checkpoint
        if not makes_checkpoint and not properties.cleanup_expired_logs:
            return
        latest = before.update()
        latest.check_writable()  # a later commit may need a feature whose actions a checkpoint here would leave out
        if makes_checkpoint:
            try:
                checkpoint_snapshot(latest)
            except VersionNotFoundError:  # a cleanup has deleted the version, after a later checkpoint
                return
            with _logged_failure("checksum", store, latest.version):
                complete_checksum(latest)
        if properties.cleanup_expired_logs is not False:
            with _logged_failure("log cleanup", store, version):
                clean_up_log(latest, commit, is_requested=properties.cleanup_expired_logs is True)


def write_checksum(before: Snapshot, commit: CommitActions) -> None:
    """Write the checksum of a commit from the checksum before it, at a cost independent of the table's size.

    If that checksum is missing and the table has a checkpoint, no checksum is written until the next checkpoint, which
    counts all files anyway. Before the first checkpoint all files are in memory, and the checksum is counted from them.
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
            logger.warning("no checksum is derived from the checksum %s of %s: %s", path, store.root, "; ".join(wrong))
            return
    checksum = next_checksum(previous, commit, newer_than=before.timestamp)
    if checksum is not None:
        put_checksum(store, version, checksum)


def complete_checksum(snapshot: Snapshot) -> None:
    """Write the checksum of this version, counted from all of its files; an existing checksum is compared instead."""
    if read_checksum(snapshot.store, snapshot.version) is not None:
        snapshot.compare_checksum()
        return
    state_checksum = snapshot.query(checksum_of)
    if state_checksum is not None:
        checksum = of_commit(state_checksum, read_commit(snapshot.store, snapshot.version).info)
        if checksum is not None:
            put_checksum(snapshot.store, snapshot.version, checksum)


def clean_up_log(latest: Snapshot, commit: CommitActions, *, is_requested: bool = False) -> None:
    """Delete log files that have expired, unless the clock that set the commit's time is ahead of the store's.

    Args:
        is_requested: the caller of the commit has asked for a log cleanup, so it also runs if
            ``delta.enableExpiredLogCleanup`` is false.
    """
    metadata = latest.metadata
    if is_requested:
        metadata = replace(metadata, configuration={**metadata.configuration, EXPIRED_LOG_CLEANUP.key: "true"})
    if not is_due(latest.store, metadata):
        return
    timestamp = int(commit.info["timestamp"])
    try:
        clock.check_by_commit(latest.store, timestamp, commit.version)
    except RetentionError as error:
        logger.warning("the log is not cleaned up after version %d: %s", commit.version, error)
        return
    clean_up(latest.store, metadata, latest.protocol, now=timestamp)


def checkpoint_snapshot(snapshot: Snapshot) -> None:
    """Write the checkpoint of this version without tombstones older than the table's retention."""
    table = snapshot.store.root
    since = tombstones.checkpoint_cutoff(
        snapshot.configuration, now=clock.now(), committed=snapshot.modified, table=table
    )
    snapshot.query(lambda state: write_checkpoint(snapshot.store, snapshot.version, state, tombstones_since=since))


@contextlib.contextmanager
def _logged_failure(what: str, store: ObjectStore, version: int) -> Iterator[None]:
    try:
        yield
    except Exception:
        logger.warning("%s failed after version %d of %s", what, version, store.root, exc_info=True)
