"""The commits that a request for changes selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.history import commit_times, moment_of
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.store import ObjectStore

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class CommitRange:
    """Consecutive commits from version ``first`` on; ``times`` has the time of each commit, in ms since the epoch."""

    first: int
    times: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        """The last version; ``first`` - 1 if the range is empty."""
        return self.first + len(self.times) - 1

    @property
    def versions(self) -> range:
        """The version of each commit."""
        return range(self.first, self.last + 1)


def commit_range(
    store: ObjectStore,
    starting_version: int | None,
    ending_version: int | None,
    starting_timestamp: str | datetime | None,
    ending_timestamp: str | datetime | None,
    *,
    allow_out_of_range: bool = False,
) -> CommitRange:
    """The commits between a start and an end, both inclusive.

    The start is a version, a timestamp, or the later of both. The end is a version, a timestamp, or the earlier of
    both; None for both: the latest version.

    Args:
        starting_version: needed if ``starting_timestamp`` is None.
        ending_version: a version after the latest version means the latest version.
        starting_timestamp, ending_timestamp: ISO 8601 text or a datetime; without a zone: UTC. A start before the
            oldest commit in the log means this commit, as in delta-spark.
        allow_out_of_range: return an empty range for a start after the latest version, instead of an error.

    Returns:
        The commits; empty if no commit is in the range, for example if ``ending_timestamp`` is before the commit of
        ``starting_version``.

    Raises:
        InvalidArgumentError: no start is given, a bound is not valid, the ending version is before the starting
            version, or the ending timestamp is before the starting timestamp.
        VersionNotFoundError: the start is after the latest commit, and ``allow_out_of_range`` is false; or a commit of
            the range was cleaned up, or may have been, because the range starts and ends before the oldest commit in
            the log.
        TableNotFoundError: the log has no commit.
    """
    root = store.root
    start_version, end_version = (
        _version(starting_version, "starting_version", root),
        _version(ending_version, "ending_version", root),
    )
    start_moment, end_moment = _microseconds(starting_timestamp, root), _microseconds(ending_timestamp, root)
    if start_version is None and start_moment is None:
        raise InvalidArgumentError(
            "the change data feed needs a starting version or timestamp",
            table=root,
            hint="Give starting_version or starting_timestamp",
            code="DELTA_INVALID_VERSION",
        )
    for start, end, given_start, given_end in (
        (start_version, end_version, starting_version, ending_version),
        (start_moment, end_moment, starting_timestamp, ending_timestamp),
    ):
        if start is not None and end is not None and end < start:
            raise InvalidArgumentError(
                f"the changes end at {given_end}, before their start at {given_start}",
                table=root,
                hint="Swap the start and the end",
                code="DELTA_INVALID_VERSION",
            )
    # Commits have whole milliseconds: the first one from the start on, and the last one up to the end.
    start_time = None if start_moment is None else -(-start_moment // 1000)
    end_time = None if end_moment is None else end_moment // 1000
    listed = list_commits(store)
    if not listed:
        raise TableNotFoundError(f"the location has no table: {file_names.LOG} has no commit", table=root)
    latest = listed[-1].version
    # With a starting timestamp, the times of commits after the ending version are needed, too. Without them, a start
    # after the ending version would seem to be after the latest version.
    last = end_version if end_version is not None and start_time is None else latest
    first = start_version or 0
    times = commit_times(store, listed, first, last)
    start = max(first, _first_version_from(start_time, times, latest))
    if start > latest and not allow_out_of_range:
        is_version_later = start_version is not None and start_version > latest
        given_bound = f"version {start_version}" if is_version_later else str(starting_timestamp)
        raise VersionNotFoundError(
            f"the changes start at {given_bound}, after the latest version {latest}",
            table=root,
            version=latest,
            hint="Give an earlier start, or allow_out_of_range=True to get no changes instead",
        )
    stop = min(latest, latest if end_version is None else end_version, _last_version_until(end_time, times, latest))
    # A start before the oldest commit in the log seems to be at this commit. An end before it is then missing, too.
    begin = min(start, stop) if start == min(times, default=start) else start
    missing = [version for version in range(max(first, begin), stop + 1) if version not in times]
    if missing:
        raise VersionNotFoundError(
            f"commit {missing[0]} was cleaned up, so its changes are lost",
            table=root,
            version=missing[0],
            hint=f"Start at version {_oldest_readable(listed)} or later",
        )
    lost_commits = [
        commit.version for commit in listed if commit.version not in times and first <= commit.version <= last
    ]
    if lost_commits and start <= lost_commits[-1] + 1:
        raise VersionNotFoundError(
            f"commit {lost_commits[-1]} was cleaned up during this read, and may have been one of the requested "
            "commits",
            table=root,
            version=lost_commits[-1],
            hint="Read the changes again",
        )
    return CommitRange(start, tuple(times[version] for version in range(start, stop + 1)))


def _version(version: int | None, name: str, root: str) -> int | None:
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
        raise InvalidArgumentError(
            f"{name} is {version!r}; expected a whole number from 0",
            table=root,
            hint="history() lists the versions",
            code="DELTA_INVALID_VERSION",
        )
    return version


def _first_version_from(start_time: int | None, times: dict[int, int], latest: int) -> int:
    """The first version that was committed at or after a time; ``latest`` + 1 if all were committed earlier."""
    if start_time is None:
        return 0
    return min((version for version, time in times.items() if time >= start_time), default=latest + 1)


def _last_version_until(end_time: int | None, times: dict[int, int], latest: int) -> int:
    """The version before the first one that was committed after a time; ``latest`` if none was committed later."""
    if end_time is None:
        return latest
    return min((version for version, time in times.items() if time > end_time), default=latest + 1) - 1


def _microseconds(moment: str | datetime | None, root: str) -> int | None:
    """A time in microseconds since the epoch."""
    return None if moment is None else (moment_of(moment, root) - _EPOCH) // timedelta(microseconds=1)


def _oldest_readable(listed: Sequence[Commit]) -> int:
    """The oldest version from which on no commit is missing."""
    version: int = listed[-1].version
    for commit in reversed(listed):
        if commit.version < version - 1:
            break
        version = commit.version
    return version
