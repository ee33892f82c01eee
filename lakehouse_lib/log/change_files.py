"""The change files of the commits that the log still has. Checkpoints do not list change files."""

from __future__ import annotations

import pyarrow as pa

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests


def logged_change_files(store: ObjectStore, before: int | None = None, versions: range | None = None) -> pa.Table:
    """The change files (CHANGE_FILE_SCHEMA) to which commits refer. Reads these commits.

    Args:
        before: ms since the epoch; commits that were stored at this time or later are left out. None: no commit is
            left out.
        versions: the versions of the commits; None: all in the log.
    """
    nothing = pa.Table.from_batches([], CHANGE_FILE_SCHEMA)

    def changes(commit: Commit) -> pa.Table:
        try:
            return read_commit(store, commit.version, size=commit.size).changes
        except VersionNotFoundError:  # cleaned up meanwhile, so no reader can read its changes
            return nothing

    if versions is not None and not versions:
        return nothing
    commits = list_commits(store, 0 if versions is None else versions.start)
    due = [
        commit
        for commit in commits
        if (before is None or commit.modified < before) and (versions is None or commit.version in versions)
    ]
    return pa.concat_tables([nothing, *map_requests(store, changes, due)])
