"""The versions of a table, and which of them changed rows, read without a snapshot.

Sensors read the latest version every few seconds. Therefore importing this module and reading the latest version do not
import pyarrow.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse_lib.log import latest_version
from lakehouse_lib.store import ObjectStore

if TYPE_CHECKING:
    from lakehouse_lib.log.commits.commit_file import CommitActions

__all__ = ["changed_rows", "commit_info", "latest_version", "log_retention", "newest_change", "oldest_version"]

log = logging.getLogger(__name__)

_COMMITS_A_LISTING = 1000


def changed_rows(store: ObjectStore, since: int) -> tuple[int, int] | None:
    """The versions ``(since, latest)`` if a commit after ``since`` has changed rows, else None.

    Compaction and Z-order change no rows: ``dataChange`` of their actions is false. A commit that log cleanup has
    deleted, or that is corrupted, counts as a change. If ``latest`` is below ``since``, the table was recreated, and
    the result is ``(-1, latest)``.

    Args:
        since: a version; -1: before the first version.
    """
    from lakehouse_lib.errors import LogCorruptedError, VersionNotFoundError
    from lakehouse_lib.log import segment
    from lakehouse_lib.log.commits.commit_file import read_commit

    latest = latest_version(store)
    if latest is None or latest == since:
        return None
    if latest < since:
        return -1, latest
    commits = [commit.version for commit in segment.list_commits(store, since + 1) if commit.version <= latest]
    if len(commits) < latest - since:
        return since, latest
    try:
        changed = any(_changes_rows(read_commit(store, version)) for version in commits)
    except VersionNotFoundError:  # log cleanup deleted it after it was listed
        changed = True
    except LogCorruptedError as error:
        log.warning("%s; its rows count as changed", error)
        changed = True
    return (since, latest) if changed else None


def newest_change(store: ObjectStore, latest: int, since: int) -> tuple[int, int] | None:
    """The version and the time (ms since the epoch) of the newest commit that has changed rows.

    None if there is no such commit, or if it is older than ``since``. Commits are read newest first, and commits older
    than ``since`` are not read. A corrupted commit counts as a change.

    Args:
        latest: the latest version.
        since: ms since the epoch.
    """
    from lakehouse_lib.errors import LogCorruptedError, VersionNotFoundError
    from lakehouse_lib.log import segment
    from lakehouse_lib.log.commits.commit_file import read_listed

    end = latest + 1
    while end > 0:
        start = max(0, end - _COMMITS_A_LISTING)
        for commit in reversed([commit for commit in segment.list_commits(store, start) if commit.version < end]):
            if commit.modified < since:
                return None
            try:
                actions = read_listed(store, commit.version, commit.object)
            except VersionNotFoundError:  # log cleanup deleted it after it was listed
                return None
            except LogCorruptedError as error:
                log.warning("%s; its rows count as changed", error)
                return commit.version, commit.modified
            if _changes_rows(actions):
                return commit.version, commit.modified
        end = start
    return None


def oldest_version(store: ObjectStore) -> int | None:
    """The oldest version that can be read; None if the table does not exist."""
    from lakehouse_lib.log import segment

    return segment.oldest_version(store)


def commit_info(store: ObjectStore, version: int) -> dict[str, Any]:
    """The commitInfo of a version; empty if log cleanup has deleted the commit, or if it has no commitInfo.

    Raises:
        LogCorruptedError: the commit is not valid JSON.
    """
    from lakehouse_lib.errors import VersionNotFoundError
    from lakehouse_lib.log.commits.commit_file import read_info

    try:
        return dict(read_info(store, version))
    except VersionNotFoundError:  # the version can be built from its checkpoint
        return {}


def log_retention(configuration: Mapping[str, str]) -> timedelta | None:
    """The time for which the log of a table with these properties keeps its entries; None: no limit.

    Raises:
        InvalidArgumentError: ``delta.logRetentionDuration`` is not an interval.
    """
    from lakehouse_lib.protocol import table_properties

    return table_properties.log_retention(configuration)


def _changes_rows(commit: CommitActions) -> bool:
    import pyarrow.compute as pc

    return any(pc.any(files["dataChange"]).as_py() for files in (commit.adds, commit.removes))
