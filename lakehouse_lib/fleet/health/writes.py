"""The commits of the last days: the number of commits each day, and their writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError, VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import read_beginning, read_info
from lakehouse_lib.log.segment import Commit
from lakehouse_lib.protocol.actions import parse_line
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests

#: The days before now whose commits are counted.
DAYS = 7
#: The most commits whose commitInfo is read.
MOST_COMMITS = 500

_DAY = 86_400_000
#: Only the beginning of a larger commit is read: commitInfo is its first line.
_BEGINNING = 64 * 1024


@dataclass(frozen=True)
class Writer:
    """Commits of the same origin, by their commitInfo. None: commitInfo has no such field.

    Attributes:
        operation: such as ``WRITE`` or ``MERGE``.
        engine: ``engineInfo``.
        user: ``userName``.
        dag: the Airflow DAG, ``dag_id`` of ``airflow``.
        commits: the number of commits.
    """

    operation: str | None
    engine: str | None
    user: str | None
    dag: str | None
    commits: int


@dataclass(frozen=True)
class Writes:
    """The commits of the last ``days`` days, by the modification times of the commit files.

    Attributes:
        per_day: the mean number of commits a day.
        by_day: the number of commits by UTC date; dates without commits are left out.
        commits_read: the number of commits that ``writers`` counts: the newest ``MOST_COMMITS`` at most.
        writers: the most active writer first.
    """

    days: int
    commits: int
    per_day: float
    by_day: Mapping[str, int]
    commits_read: int
    writers: tuple[Writer, ...]


def writes_of(store: ObjectStore, commits: Sequence[Commit], now: int) -> Writes:
    """The writes of the last ``DAYS`` days.

    Args:
        commits: the commits in the log, ascending.
        now: ms since the epoch.
    """
    recent = [commit for commit in commits if now - DAYS * _DAY < commit.modified <= now]
    dates = Counter(datetime.fromtimestamp(commit.modified / 1000, UTC).date().isoformat() for commit in recent)
    infos = [
        info
        for info in map_requests(store, lambda commit: _info(store, commit), recent[-MOST_COMMITS:])
        if info is not None
    ]
    origins = Counter(map(_origin, infos))
    return Writes(
        days=DAYS,
        commits=len(recent),
        per_day=len(recent) / DAYS,
        by_day=dict(sorted(dates.items())),
        commits_read=len(infos),
        writers=tuple(Writer(*origin, count) for origin, count in origins.most_common()),
    )


def _info(store: ObjectStore, commit: Commit) -> Mapping[str, Any] | None:
    """The commitInfo of a commit; None if log cleanup has deleted the commit, empty if commitInfo cannot be read."""
    try:
        if commit.size <= _BEGINNING:
            return read_info(store, commit.version)
        name, body = parse_line(read_beginning(store, commit.path, _BEGINNING).split(b"\n", 1)[0])
        return body if name == "commitInfo" else {}
    except (VersionNotFoundError, ObjectNotFoundError):  # cleaned up after it was listed
        return None
    except (LogCorruptedError, ValueError):
        return {}


def _origin(info: Mapping[str, Any]) -> tuple[str | None, str | None, str | None, str | None]:
    task = info.get("airflow")
    dag = task.get("dag_id") if isinstance(task, Mapping) else None
    return _text(info.get("operation")), _text(info.get("engineInfo")), _text(info.get("userName")), _text(dag)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
