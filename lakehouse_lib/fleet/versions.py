"""Which versions a table has and which of them changed rows, without opening the table.

Sensors ask every few seconds, so importing this module and asking for the latest version load nothing heavy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse_lib.log.latest import latest_version
from lakehouse_lib.store.base import ObjectStore

if TYPE_CHECKING:
    from lakehouse_lib.log.commits.commit_file import CommitActions

__all__ = ["changed_rows", "commit_info", "latest_version", "log_retention", "oldest_version"]

log = logging.getLogger(__name__)


def changed_rows(store: ObjectStore, since: int) -> tuple[int, int] | None:
    """The versions ``(since, latest)`` when a commit after ``since`` has changed rows, else None.

    Commits that only move rows between files (compaction, clustering) say so in the log (``dataChange``). A commit that
    is cleaned up already, or torn, counts as a change. A table that was recreated since gives ``(-1, latest)``.

    Args:
        since: a version; -1 for before the first.
    """
    from lakehouse_lib.errors import LogCorruptedError, VersionNotFoundError
    from lakehouse_lib.log.commits.commit_file import read_commit
    from lakehouse_lib.log.segment import list_commits

    latest = latest_version(store)
    if latest is None or latest == since:
        return None
    if latest < since:
        return -1, latest
    commits = [commit.version for commit in list_commits(store, since + 1) if commit.version <= latest]
    if len(commits) < latest - since:
        return since, latest
    try:
        changed = any(_changes_rows(read_commit(store, version)) for version in commits)
    except VersionNotFoundError:  # cleaned up after it was listed
        changed = True
    except LogCorruptedError as error:
        log.warning("%s; its rows count as changed", error)
        changed = True
    return (since, latest) if changed else None


def oldest_version(store: ObjectStore) -> int | None:
    """The oldest version that can be read, or None while there is no table."""
    from lakehouse_lib.log import segment

    return segment.oldest_version(store)


def commit_info(store: ObjectStore, version: int) -> dict[str, Any]:
    """The commitInfo of a version; empty where its commit is cleaned up, or has none.

    Raises:
        LogCorruptedError: the commit is torn.
    """
    from lakehouse_lib.errors import VersionNotFoundError
    from lakehouse_lib.log.commits.commit_file import read_commit

    try:
        return dict(read_commit(store, version).info)
    except VersionNotFoundError:  # the version can be built from its checkpoint
        return {}


def log_retention(configuration: Mapping[str, str]) -> timedelta | None:
    """How long the log of a table with these properties keeps its entries; None: for ever.

    Raises:
        InvalidArgumentError: ``delta.logRetentionDuration`` is not an interval.
    """
    from lakehouse_lib.protocol import table_properties

    return table_properties.log_retention(configuration)


def _changes_rows(commit: CommitActions) -> bool:
    import pyarrow.compute as pc

    return any(pc.any(files["dataChange"]).as_py() for files in (commit.adds, commit.removes))
