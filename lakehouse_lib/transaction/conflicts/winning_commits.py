"""The winning commits: commits of other writers after the read version of a transaction."""

from __future__ import annotations

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit, read_listed
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.log.table_identity import CommitFingerprint
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests


def read_winning_commits(
    store: ObjectStore, before: CommitFingerprint
) -> tuple[list[CommitActions], CommitFingerprint]:
    """The commits after ``before`` in the order of their versions, and the fingerprint of the last commit.

    At least one such commit must exist. A stale listing may lack the newest commits. Then the next put of the
    transaction is refused, and they are read after it.

    Args:
        before: the version that the lost attempt followed.

    Raises:
        TableNotFoundError: the table was replaced: the version of ``before`` is another commit now.
        VersionNotFoundError: ``before`` or a later commit was cleaned up.
        LogCorruptedError: a commit cannot be parsed, for example because its last line is cut.
    """
    listed = {commit.version: commit.object for commit in list_commits(store, before.version)}
    path = file_names.commit(before.version)
    commit_file = listed.pop(before.version, None) or store.head(path)
    if commit_file is None and before.file is not None:
        raise VersionNotFoundError(f"{path} was cleaned up", table=store.root, version=before.version)
    before.check(store, commit_file)
    first = before.version + 1

    def read(version: int) -> CommitActions:
        listed_commit = listed.get(version)
        return read_commit(store, version) if listed_commit is None else read_listed(store, version, listed_commit)

    commits = map_requests(store, read, range(first, max(listed, default=first) + 1))
    last = commits[-1]
    table_id = next(
        (commit.metadata.id for commit in reversed(commits) if commit.metadata is not None), before.table_id
    )
    return commits, CommitFingerprint(last.version, listed.get(last.version), last.info, table_id)
