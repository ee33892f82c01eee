"""The commits to replay and the files to delete, by the log of a table: the same numbers for plans and for health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.log.retention.last_vacuum import last_vacuumed
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.protocol.actions import TOMBSTONE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.concurrent import at_once

#: The bytes of commits after which a checkpoint is due, even if there are only a few commits.
LARGE_LOG = 64 * 2**20
#: The most commits whose removes ``reclaimable_files`` reads.
MOST_COMMITS = 1_000


@dataclass(frozen=True)
class Reclaimable:
    """The removed files past the retention that no vacuum has deleted yet.

    Attributes:
        files: ``path`` and ``size``.
        is_partial: there are older commits, which were not read.
        since: when the first of the files was removed, ms since the epoch; None: there are none.
    """

    files: pa.Table
    is_partial: bool
    since: int | None


def replayed_commits(snapshot: Snapshot, commits: Sequence[Commit]) -> list[Commit]:
    """The commits since the last checkpoint, which a reader of the version replays.

    Args:
        commits: the commits in the log, at least those since the checkpoint.
    """
    since = -1 if snapshot.checkpoint_version is None else snapshot.checkpoint_version
    return [commit for commit in commits if since < commit.version <= snapshot.version]


def checkpoint_lag(replayed: Sequence[Commit], interval: int) -> float:
    """The commits or bytes since the last checkpoint, as a multiple of the limit. At 1.0 or more a checkpoint is due.

    The limit is ``delta.checkpointInterval`` commits (``interval``), or commits of 64 MiB.
    """
    return max(len(replayed) / interval, sum(commit.size for commit in replayed) / LARGE_LOG)


def reclaimable_files(
    snapshot: Snapshot, retention_ms: int, now: int, commits: Sequence[Commit] | None = None
) -> Reclaimable:
    """The files that a vacuum deletes because commits since the last vacuum have removed them (``log.last_vacuum``).

    Files that no commit refers to are found only by a listing, so they are not counted. At most the newest
    ``MOST_COMMITS`` of the commits are read.

    Args:
        now: ms since the epoch.
        commits: the commits in the log, ascending; None: those since the last vacuum are listed.
    """
    vacuumed = last_vacuumed(snapshot.store)
    since = -1 if vacuumed is None else vacuumed
    due = [
        commit
        for commit in (list_commits(snapshot.store, since + 1) if commits is None else commits)
        if since < commit.version <= snapshot.version and commit.modified <= now - retention_ms
    ]
    files = _removed(snapshot, due[-MOST_COMMITS:])
    return Reclaimable(files, len(due) > MOST_COMMITS, due[0].modified if len(files) else None)


def _removed(snapshot: Snapshot, commits: Sequence[Commit]) -> pa.Table:
    """The paths and sizes of the files that these commits removed, and of their change files, without live files."""
    store = snapshot.store

    def read(commit: Commit) -> CommitActions | None:
        try:
            return read_commit(store, commit.version, size=commit.size)
        except VersionNotFoundError:  # cleaned up after it was listed
            return None

    columns = ["path", "size"]
    tables = [
        table.select(columns)
        for actions in at_once(store, read, commits)
        if actions is not None
        for table in (actions.removes, actions.changes)
        if len(table)
    ]
    if not tables:
        return pa.Table.from_batches([], TOMBSTONE_SCHEMA).select(columns)
    files = pa.concat_tables(tables)
    live = snapshot.file_columns(["path"])["path"]
    live = live.filter(pc.is_in(live, value_set=files["path"]))  # a set of the removed paths, not of all live paths
    files = files.filter(pc.invert(pc.is_in(files["path"], value_set=live)))
    sizes = files.set_column(1, "size", pc.fill_null(files["size"], literal(0, pa.int64())))
    return sizes.group_by("path").aggregate([("size", "max")]).rename_columns(["path", "size"])
