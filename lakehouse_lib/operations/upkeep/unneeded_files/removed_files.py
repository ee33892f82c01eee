"""The files that commits have removed since the last vacuum, by the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, UnsupportedFeatureError, VersionNotFoundError
from lakehouse_lib.features.in_commit_timestamp import effective_properties
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.change_files import logged_change_files
from lakehouse_lib.log.checksum import read_checksum
from lakehouse_lib.log.commits.commit_file import read_listed, read_removes
from lakehouse_lib.log.history import newest_at
from lakehouse_lib.log.retention.last_vacuum import read_last_vacuum
from lakehouse_lib.log.retention.tombstones import are_expired, drop_expired, retention
from lakehouse_lib.log.segment import Checkpoint, Commit, classify_log_files, list_commits
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import TOMBSTONE_SCHEMA
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemovedFiles:
    """The files that commits have removed since the last vacuum, and the change files of these commits.

    Attributes:
        tombstones: the tombstones of these commits, and all that have not expired (TOMBSTONE_SCHEMA).
        change_files: the store path and the size of the change files of commits that were stored before the cutoff.
        logged: the store path and the size of the files among them that no vacuum has deleted yet, by the log and its
            ``LastVacuum``. All have a size.
        is_complete: whether the log has all commits since the last vacuum.
    """

    tombstones: pa.Table
    change_files: pa.Table
    logged: pa.Table
    is_complete: bool


def last_expired_version(latest: Snapshot, commits: Sequence[Commit], cutoff: int) -> int:
    """The last version whose removed files have expired; -1: none.

    A tombstone may be younger than its commit, because the clock of its writer may have been ahead. Therefore commits
    up to ten minutes older than the oldest unexpired tombstone do not count.

    Args:
        commits: the commits in the log up to this version, ascending.
        cutoff: ms since the epoch; tombstones up to this time have expired.
    """
    properties = effective_properties(latest.configuration, latest.protocol)
    oldest = pc.min(drop_expired(latest.tombstones, cutoff)["deletionTimestamp"]).as_py()
    most_ahead = int(clock.MOST_AHEAD.total_seconds() * 1000)
    moment = cutoff if oldest is None else min(cutoff, oldest - most_ahead)
    try:
        version = newest_at(latest.store, commits, moment, properties)
    except VersionNotFoundError:  # a concurrent cleanup
        version = None
    return -1 if version is None else version


def removed_files(latest: Snapshot, commits: Sequence[Commit], cutoff: int) -> RemovedFiles:
    """The files that commits have removed since the last vacuum.

    If a log cleanup has deleted some of these commits, a warning is logged. The tombstones then include those of the
    latest checkpoint. Only a listing finds the other files that these commits have removed.

    Args:
        commits: the commits in the log up to this version, ascending.
        cutoff: ms since the epoch; tombstones up to this time have expired.
    """
    store, last = latest.store, read_last_vacuum(latest.store, latest.version)
    first = last.version + 1
    commits = [commit for commit in commits if commit.version >= first]
    oldest = commits[0].version if commits else first
    is_complete = oldest <= first
    if not is_complete:
        logger.warning(
            "%s: commits since the last vacuum were cleaned up, before version %d; files that they have removed "
            "stay until a vacuum with full=True",
            *(store.root, oldest),
        )
    if first == 0 or not is_complete:  # the latest version has the tombstones after the checkpoint
        tables = [latest.tombstones, *removes_below_checkpoint(latest, first=oldest)]
    else:
        tables = [drop_expired(latest.tombstones, cutoff), *removes_of_commits(latest, commits)]
    tombstones = pa.concat_tables([table.select(TOMBSTONE_SCHEMA.names) for table in tables])
    expired = tombstones.filter(are_expired(tombstones, cutoff))
    has_change_files = next(store.walk(file_paths.CHANGE_DATA), None) is not None
    due = [commit for commit in commits if commit.modified < cutoff] if has_change_files else []
    # An earlier vacuum may have deleted what had expired before its cutoff.
    older_due = [commit for commit in due if commit.modified < last.cutoff]
    new_due = [commit for commit in due if commit.modified >= last.cutoff]
    older_changes, new_changes = (
        _paths_and_sizes(logged_change_files(store, part), store) for part in (older_due, new_due)
    )
    logged = pa.concat_tables([_paths_and_sizes(drop_expired(expired, last.cutoff), store), new_changes])
    return RemovedFiles(
        tombstones,
        pa.concat_tables([older_changes, new_changes]),
        logged.filter(logged["size"].is_valid()),
        is_complete,
    )


def may_lack_tombstones(latest: Snapshot, since: int) -> bool:
    """Whether this version may lack tombstones after ``since`` (ms since the epoch), because a checkpoint dropped them.

    A checkpoint drops the tombstones that have expired by the retention of its version. Later checkpoints lack them,
    too, because they are computed from this checkpoint. The retention is read from the checksum of the version, which
    takes one request, or from the checkpoint if the version has no checksum. True if neither can be read.
    """
    store, last = latest.store, latest.checkpoint_version
    if last is None:
        return False

    def may_lack(checkpoint: Checkpoint) -> bool:
        try:
            checksum = read_checksum(store, checkpoint.version)
            configuration = (
                load_snapshot(store, checkpoint.version).configuration
                if checksum is None
                else checksum.metadata.configuration
            )
            return checkpoint.modified - retention(configuration, store.root) > since
        except (LogCorruptedError, VersionNotFoundError, UnsupportedFeatureError, InvalidArgumentError):
            return True

    checkpoints, _, _ = classify_log_files(list(store.list_from(file_names.LOG, file_names.first_name(0))))
    young = [checkpoint for checkpoint in checkpoints if checkpoint.version <= last and checkpoint.modified > since]
    return any(map_requests(store, may_lack, young))


def removes_below_checkpoint(latest: Snapshot, since: int = 0, first: int = 0) -> list[pa.Table]:
    """The remove actions (TOMBSTONE_SCHEMA) of each commit in the log up to the checkpoint of this version.

    Args:
        since: ms since the epoch; commits that were stored before this time are not read.
        first: the first version.
    """
    last = -1 if latest.checkpoint_version is None else latest.checkpoint_version
    commits = list_commits(latest.store, first) if first <= last else []
    return removes_of_commits(latest, [c for c in commits if c.version <= last and c.modified >= since])


def removes_of_commits(latest: Snapshot, commits: Sequence[Commit]) -> list[pa.Table]:
    """The remove actions (TOMBSTONE_SCHEMA) of each of these commits that is still in the log."""
    store, checkpoint = latest.store, latest.checkpoint_version

    def removes(commit: Commit) -> pa.Table | None:
        try:
            if checkpoint is None or commit.version > checkpoint:  # cached since the version was opened
                return read_listed(store, commit.version, commit.object).removes
            return read_removes(store, commit.version, commit.size)
        except VersionNotFoundError:  # log cleanup deleted it, so no reader can open its version
            return None

    return [table for table in map_requests(store, removes, commits) if table is not None]


def _paths_and_sizes(files: pa.Table, store: ObjectStore) -> pa.Table:
    return pa.table({"path": file_paths.canonical(files["path"], store), "size": files["size"]})
