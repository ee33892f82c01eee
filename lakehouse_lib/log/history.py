"""What happened to a table: commit times, commitInfo, and the version of a moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from lakehouse_lib.errors import TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import names
from lakehouse_lib.log.commit import read_commit
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.store.base import ObjectStore

_CLOCK_SKEW_MS = 60_000


def history(store: ObjectStore, limit: int | None = None) -> list[dict[str, Any]]:
    """The commits that are still in the log, newest first, each as commitInfo with ``version`` and ``timestamp`` (ms).

    Args:
        limit: at most so many; None for all.
    """
    commits = list_commits(store)
    times = commit_times(store, commits)
    newest = list(zip(commits, times, strict=True))[::-1][:limit]
    entries = []
    for commit, timestamp in newest:
        info = dict(read_commit(store, commit.version).info)
        entries.append({**info, "version": commit.version, "timestamp": timestamp})
    return entries


def commit_times(store: ObjectStore, commits: Sequence[Commit]) -> list[int]:
    """When each commit happened, ms since the epoch, strictly rising.

    The in-commit timestamp where a commit has one, else the file's modification time moved past the one before
    (PROTOCOL.md, section In-Commit Timestamps).
    """
    times: list[int] = []
    in_commit = bool(commits) and _in_commit_timestamp(store, commits[-1].version) is not None
    for commit in commits:
        moment = (_in_commit_timestamp(store, commit.version) if in_commit else None) or commit.modified
        times.append(moment if not times or moment > times[-1] else times[-1] + 1)
    return times


def version_at(store: ObjectStore, moment: datetime) -> int:
    """The latest version that was committed at or before ``moment`` (without a zone: UTC).

    Raises:
        VersionNotFoundError: before the first commit in the log, or in the future.
    """
    commits = list_commits(store)
    if not commits:
        raise TableNotFoundError(f"no table there: {names.LOG} holds no commit", table=store.root)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    wanted = int(aware.timestamp() * 1000)
    times = commit_times(store, commits)
    if wanted < times[0]:
        raise VersionNotFoundError(
            f"{aware.isoformat()} is before the oldest commit in the log, {_text(times[0])}",
            table=store.root,
            version=commits[0].version,
            hint=f"Ask for a time from {_text(times[0])} on",
        )
    if wanted > max(times[-1], int(time.time() * 1000) + _CLOCK_SKEW_MS):
        raise VersionNotFoundError(
            f"{aware.isoformat()} is in the future; the latest commit is from {_text(times[-1])}",
            table=store.root,
            version=commits[-1].version,
            hint="Ask for a time up to now",
        )
    return max(c.version for c, t in zip(commits, times, strict=True) if t <= wanted)


def _in_commit_timestamp(store: ObjectStore, version: int) -> int | None:
    moment = read_commit(store, version).info.get("inCommitTimestamp")
    return moment if isinstance(moment, int) else None


def _text(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat()
