"""The change files of the commits that the log still has. Checkpoints do not list change files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests


def logged_change_files(store: ObjectStore, commits: Sequence[Commit] | None = None) -> pa.Table:
    """The change files (CHANGE_FILE_SCHEMA) to which commits refer. Reads these commits.

    Args:
        commits: None: all commits in the log.
    """
    nothing = pa.Table.from_batches([], CHANGE_FILE_SCHEMA)

    def changes(commit: Commit) -> pa.Table:
        try:
            return read_commit(store, commit.version, size=commit.size).changes
        except VersionNotFoundError:  # cleaned up meanwhile, so no reader can read its changes
            return nothing

    commits = list_commits(store) if commits is None else commits
    return pa.concat_tables([nothing, *map_requests(store, changes, commits)])
