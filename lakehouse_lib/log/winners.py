"""The commits that others have put since a transaction's snapshot was taken."""

from __future__ import annotations

from lakehouse_lib.log.commit import CommitActions, read_commit, read_listed
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.store.at_once import at_once
from lakehouse_lib.store.base import ObjectStore


def read_winners(store: ObjectStore, first: int) -> list[CommitActions]:
    """The commits from ``first`` on, which is known to be there, in the order of their versions.

    The newest may be missing from a listing that is a little behind; the next put meets them.

    Raises:
        VersionNotFoundError: one of them was cleaned up already.
        LogCorruptedError: a torn one.
    """
    listed = {commit.version: commit.object for commit in list_commits(store, first)}
    versions = range(first, max(listed, default=first) + 1)

    def read(version: int) -> CommitActions:
        known = listed.get(version)
        return read_commit(store, version) if known is None else read_listed(store, version, known)

    return at_once(store, read, versions)
