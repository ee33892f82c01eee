"""The check that no vacuum is running that may delete files of an old version.

A vacuum reads the pins and the records of clones after it has committed VACUUM START, and a restore conflicts with this
commit. So a vacuum that starts later keeps the files. A running vacuum deletes only files that the latest version does
not have.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.compute as pc

from lakehouse_lib.errors import CommitFailedError, VersionNotFoundError
from lakehouse_lib.log import clock
from lakehouse_lib.log.commits.commit_file import read_info
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.concurrent import map_requests

_DAY = 86_400_000


def check_files_stay(version: Snapshot, latest: Snapshot, outcome: str) -> None:
    """Refuse a version if a vacuum is running, and the latest version does not have all files of the version.

    Args:
        latest: the latest version, loaded after the version was pinned or the record of a clone was written.
        outcome: what was not done, for the hint.

    Raises:
        CommitFailedError, RetentionError: as ``check_no_vacuum``.
    """
    if version.version == latest.version:
        return
    live = file_keys(latest.file_columns(KEY_COLUMNS), latest.store)
    are_live = pc.is_in(file_keys(version.file_columns(KEY_COLUMNS), version.store), value_set=live)
    if not pc.all(are_live, min_count=0).as_py():
        check_no_vacuum(version, latest, outcome)


def check_no_vacuum(version: Snapshot, latest: Snapshot, outcome: str) -> None:
    """Refuse a version that has other files than the latest version, if a vacuum is running.

    A vacuum counts as running if more vacuums have started than ended within the last day. Reads the commits of a day.

    Args:
        latest: the latest version.
        outcome: what was not done, for the hint.

    Raises:
        CommitFailedError: a vacuum is running, or was killed less than a day ago.
        RetentionError: a vacuum may be running, and this machine's clock is ahead of the store's.
    """
    store = latest.store

    def operation(commit: Commit) -> object:
        try:
            return read_info(store, commit.version).get("operation")
        except VersionNotFoundError:  # log cleanup deleted it after it was listed
            return None

    commits = [commit for commit in list_commits(store) if commit.modified >= latest.modified - _DAY]
    operations = list(zip(commits, map_requests(store, operation, commits), strict=True))
    if not _is_any_running(operation for _, operation in operations):
        return
    since = clock.check_by_probe(store) - _DAY  # the latest commit may be old
    if _is_any_running(operation for commit, operation in operations if commit.modified >= since):
        raise CommitFailedError(
            f"a vacuum is running, and the latest version does not have all files of version {version.version}",
            table=store.root,
            version=latest.version,
            hint=f"{outcome}. Try again when the vacuum has ended, or a day after it was killed",
            code="DELTA_VACUUM_RUNNING",
        )


def _is_any_running(operations: Iterable[object]) -> bool:
    """Whether more vacuums have started than ended. An end without a start belongs to a vacuum that started earlier."""
    running = 0
    for operation in operations:
        if operation == "VACUUM START":
            running += 1
        elif operation == "VACUUM END":
            running = max(0, running - 1)
    return running > 0
