"""The commits to replay and the files to delete, computed from the log. Plans and health use the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.retention.last_vacuum import read_last_vacuum
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.operations.upkeep.unneeded_files.recorded_files import recorded_files
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.concurrent import map_requests

#: The bytes of commits after which a checkpoint is due, even if there are only a few commits.
LARGE_LOG = 64 * 2**20
#: The most commits whose removes ``reclaimable_files`` reads.
MOST_COMMITS = 1_000
_FILES = pa.schema({"path": pa.string(), "size": pa.int64(), "removed": pa.int64()})
_NO_FILES = pa.Table.from_batches([], _FILES)  # empty_table() imports pandas


@dataclass(frozen=True)
class Reclaimable:
    """The removed files past the retention that the next vacuum deletes.

    Attributes:
        files: ``path``, ``size`` and ``removed``: the time of the commit that removed the file (ms since the epoch).
        is_partial: whether there are older commits, which were not read.
        since: when the first of the files was removed, ms since the epoch; None: ``files`` is empty.
        first_commit: the modification time of the first commit since the last vacuum, ms since the epoch; None: no
            commit since then is past the retention.
    """

    files: pa.Table
    is_partial: bool
    since: int | None
    first_commit: int | None


def replayed_commits(snapshot: Snapshot, commits: Sequence[Commit]) -> list[Commit]:
    """The commits since the last checkpoint, which a reader of the version replays.

    Args:
        commits: the commits in the log, at least the commits since the checkpoint.
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

    Files that no commit refers to are found only by a listing, so they are not counted. Files that a pin or a clone
    needs are not counted, because vacuum keeps them. At most the newest ``MOST_COMMITS`` of the commits are read.

    Args:
        now: ms since the epoch.
        retention_ms: the retention of removed files, in ms.
        commits: the commits in the log, ascending; None: the commits since the last vacuum are listed.
    """
    since = read_last_vacuum(snapshot.store, snapshot.version).version
    due = [
        commit
        for commit in (list_commits(snapshot.store, since + 1) if commits is None else commits)
        if since < commit.version <= snapshot.version and commit.modified <= now - retention_ms
    ]
    files = _removed(snapshot, due[-MOST_COMMITS:])
    if len(files):
        needed_paths = recorded_files(snapshot.store, now, now - retention_ms).paths
        files = files.filter(pc.invert(pc.is_in(files["path"], value_set=needed_paths)))
    first_commit = due[0].modified if due else None
    return Reclaimable(files, len(due) > MOST_COMMITS, pc.min(files["removed"]).as_py(), first_commit)


def _removed(snapshot: Snapshot, commits: Sequence[Commit]) -> pa.Table:
    """``Reclaimable.files`` of these commits: the files that they removed and their change files, without live files.

    The paths are store paths.
    """
    store = snapshot.store

    def read(commit: Commit) -> pa.Table:
        try:
            actions = read_commit(store, commit.version, size=commit.size)
        except VersionNotFoundError:  # cleaned up after it was listed
            return _NO_FILES
        files = pa.concat_tables([actions.removes.select(["path", "size"]), actions.changes.select(["path", "size"])])
        return pa.table(
            [
                file_paths.canonical(files["path"], store),
                pc.fill_null(files["size"], literal(0, pa.int64())),
                pa.repeat(literal(commit.modified, pa.int64()), len(files)),
            ],
            schema=_FILES,
        )

    files = pa.concat_tables([_NO_FILES, *map_requests(store, read, commits)])
    if not len(files):
        return files
    live = file_paths.canonical(snapshot.file_columns(["path"])["path"], store)
    live = live.filter(pc.is_in(live, value_set=files["path"]))  # a set of the removed paths, not of all live paths
    files = files.filter(pc.invert(pc.is_in(files["path"], value_set=live)))
    grouped = files.group_by("path").aggregate([("size", "max"), ("removed", "max")])
    return grouped.rename_columns(_FILES.names)
