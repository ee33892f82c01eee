"""The history of a table: commit times, commitInfo, and the version at a time.

From the version on at which a table enables in-commit timestamps, a commit's time is the ``inCommitTimestamp`` of its
commitInfo. Before this version it is the modification time of the commit file (PROTOCOL.md, section In-Commit
Timestamps).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.features.in_commit_timestamp import effective_properties, has_time, timestamp_of
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.commits.commit_file import read_info
from lakehouse_lib.log.replay.table_state import load_state
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests

#: A time is in the future if it is later than this process's clock by more than this. Other clocks may be ahead.
_CLOCK_SKEW_MS = 60_000


def history(store: ObjectStore, limit: int | None = None) -> list[dict[str, Any]]:
    """The commits that are still in the log, newest first, each as commitInfo with ``version`` and ``timestamp`` (ms).

    Args:
        limit: the greatest number of commits to return; None for all.

    Raises:
        InvalidArgumentError: the limit is not a whole number from 0.
    """
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidArgumentError(
            f"limit is {limit!r}; expected a whole number from 0", table=store.root, hint="None returns all commits"
        )
    commits = list_commits(store)
    if not commits:
        return []
    properties = _properties(store)

    def entry(timed: tuple[Commit, int]) -> dict[str, Any] | None:
        commit, modified = timed
        try:
            info = dict(read_info(store, commit.version))
        except VersionNotFoundError:  # it was cleaned up after it was listed
            return None
        moment = commit_time(store, commit.version, modified, properties, info)
        return {**info, "version": commit.version, "timestamp": moment}

    newest = list(zip(commits, _rising_times(commits), strict=True))[::-1][:limit]
    return [answer for answer in map_requests(store, entry, newest) if answer is not None]


def commit_times(
    store: ObjectStore, commits: Sequence[Commit], first: int = 0, last: int = file_names.LAST
) -> dict[int, int]:
    """The commit times, ms since the epoch, of the versions ``first`` to ``last`` among these commits, by version.

    Commits with an in-commit timestamp are read. They are left out if they were cleaned up after they were listed.

    Args:
        commits: ascending. A commit outside of the range is not read; its modification time only adjusts those of later
            commits.
    """
    properties = _properties(store)

    def time_of(timed: tuple[Commit, int]) -> int | None:
        commit, modified = timed
        try:
            return commit_time(store, commit.version, modified, properties, {})
        except VersionNotFoundError:
            return None

    timed = zip(commits, _rising_times(commits), strict=True)
    commits_in_range = [(commit, modified) for commit, modified in timed if first <= commit.version <= last]
    times = zip(commits_in_range, map_requests(store, time_of, commits_in_range), strict=True)
    return {commit.version: time for (commit, _), time in times if time is not None}


def commit_time(
    store: ObjectStore, version: int, modified: int, properties: Mapping[str, str], info: Mapping[str, Any]
) -> int:
    """The time at which a version was committed, ms since the epoch.

    Args:
        modified: the modification time of its commit file, ms since the epoch.
        properties: the effective properties of the table (``effective_properties``) at this version or a later version.
        info: its commitInfo; empty: it is read if needed.
    """
    if not has_time(properties, version):
        return modified
    return _in_commit_time(store, version, info)


def version_at(store: ObjectStore, moment: datetime, *, nearest: bool = False) -> int:
    """The latest version that was committed at or before ``moment`` (without a zone: UTC).

    Modification times are adjusted to rise with the versions. A binary search reads only some of the commits with an
    in-commit timestamp.

    Args:
        nearest: for a time in the future, return the latest version, and for a time before version 0, version 0. A time
            before the oldest commit is still an error if earlier commits were cleaned up.

    Raises:
        InvalidArgumentError: ``moment`` is not a datetime.
        TableNotFoundError: the log has no commit.
        VersionNotFoundError: the time is before the first commit in the log, or after the latest commit and more than a
            minute in the future.
    """
    if not isinstance(moment, datetime) or moment != moment:  # the NaT of pandas is a datetime
        raise InvalidArgumentError(
            f"timestamp is {moment!r}; expected a datetime",
            table=store.root,
            hint="A datetime without a zone is UTC",
            code="DELTA_INVALID_VERSION",
        )
    commits = list_commits(store)
    if not commits:
        raise TableNotFoundError(f"the location has no table: {file_names.LOG} has no commit", table=store.root)
    aware = moment_of(moment, store.root)
    target = int(aware.timestamp() * 1000)
    properties = _properties(store)
    if target > clock.now() + _CLOCK_SKEW_MS and not nearest:
        latest = _time_of(store, commits, -1, properties)
        if target > latest:
            raise VersionNotFoundError(
                f"{aware.isoformat()} is in the future; the latest commit is from {_text(latest)}",
                table=store.root,
                version=commits[-1].version,
                hint="Give a time up to now",
            )
    commits, version = _newest_remaining_at(store, commits, target, properties)
    if version is None and nearest and commits[0].version == 0:
        return 0
    if version is None:
        first = _time_of(store, commits, 0, properties)
        raise VersionNotFoundError(
            f"{aware.isoformat()} is before the oldest commit in the log, {_text(first)}",
            table=store.root,
            version=commits[0].version,
            hint=f"Give a time from {_text(first)} on",
        )
    return version


def newest_at(store: ObjectStore, commits: Sequence[Commit], moment: int, properties: Mapping[str, str]) -> int | None:
    """The version of the newest of these commits (ascending) at or before ``moment`` (ms since the epoch), or None.

    Times rise with the versions, as in ``commit_times``. A binary search reads only some of the commits with an
    in-commit timestamp.

    Args:
        properties: the effective properties of the table at the last of the commits or later.

    Raises:
        VersionNotFoundError: a commit was cleaned up after it was listed.
    """
    timed_commits = [c for c in commits if has_time(properties, c.version)]
    earlier_commits = commits[: len(commits) - len(timed_commits)]

    def time_of(commit: Commit) -> int:
        return _in_commit_time(store, commit.version)

    if timed_commits and moment >= time_of(timed_commits[0]):
        return timed_commits[bisect_right(timed_commits, moment, key=time_of) - 1].version
    position = bisect_right(_rising_times(earlier_commits), moment)
    return earlier_commits[position - 1].version if position else None


def _newest_remaining_at(
    store: ObjectStore, commits: list[Commit], moment: int, properties: Mapping[str, str]
) -> tuple[list[Commit], int | None]:
    """The commits that remain after concurrent cleanups, and the result of ``newest_at`` for them."""
    while True:
        try:
            return commits, newest_at(store, commits, moment, properties)
        except VersionNotFoundError as error:
            # A cleanup has deleted all older commits, too, so the list gets shorter each time.
            commits = [] if error.version is None else list_commits(store, error.version + 1)
            if not commits:
                raise


def _properties(store: ObjectStore) -> Mapping[str, str]:
    state = load_state(store).state
    return effective_properties(state.metadata.configuration, state.protocol) if state.metadata is not None else {}


def _time_of(store: ObjectStore, commits: Sequence[Commit], position: int, properties: Mapping[str, str]) -> int:
    """The commit time of the first (0) or the last (-1) of some commits, ascending."""
    version = commits[position].version
    return _in_commit_time(store, version) if has_time(properties, version) else _rising_times(commits)[position]


def _in_commit_time(store: ObjectStore, version: int, info: Mapping[str, Any] | None = None) -> int:
    return timestamp_of(info or read_info(store, version), table=store.root, version=version)


def _rising_times(commits: Sequence[Commit]) -> list[int]:
    """Modification times, adjusted to rise: a time that is not later than the previous one becomes 1 ms later."""
    times: list[int] = []
    for commit in commits:
        times.append(commit.modified if not times or commit.modified > times[-1] else times[-1] + 1)
    return times


def moment_of(value: str | datetime, table: str) -> datetime:
    """A time that a user gave, as ISO 8601 text or a datetime; UTC if it has no zone.

    Raises:
        InvalidArgumentError: it is not a time.
    """
    try:
        moment = datetime.fromisoformat(value.upper()) if isinstance(value, str) else value
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        moment.timestamp()  # fails for the NaT of pandas, which is a datetime
    except (ValueError, AttributeError, OverflowError):
        raise InvalidArgumentError(
            f"the time is {value!r}; expected a datetime or ISO 8601 text",
            table=table,
            hint="Write it as 2026-01-31T12:00:00Z",
            code="DELTA_INVALID_VERSION",
        ) from None
    return moment


def _text(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat()
