"""The commits that a request for changes selects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.history import commit_times, moment_of
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.store import ObjectStore


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
    """The commits within all of the given bounds, which are inclusive; None: no bound.

    Args:
        starting_version: at least one of ``starting_version`` and ``starting_timestamp`` is given.
        ending_version: a version after the latest version means the latest version.
        starting_timestamp, ending_timestamp: ISO 8601 text or a datetime; without a zone: UTC. A start before the
            oldest commit in the log means this commit, as in delta-spark.
        allow_out_of_range: return an empty range for a start after the latest version, instead of an error.

    Raises:
        InvalidArgumentError: there is no start, a bound is not valid, or the end is before the start.
        VersionNotFoundError: the start is after the latest commit, or a commit was cleaned up.
        TableNotFoundError: the log has no commit.
    """
    root = store.root
    first, ending = (
        _version(starting_version, "starting_version", root),
        _version(ending_version, "ending_version", root),
    )
    since, until = _milliseconds(starting_timestamp, root), _milliseconds(ending_timestamp, root)
    if first is None and since is None:
        raise InvalidArgumentError(
            "the change data feed needs a starting version or timestamp",
            table=root,
            hint="Give starting_version or starting_timestamp",
            code="DELTA_INVALID_VERSION",
        )
    for start, end in ((first, ending), (since, until)):
        if start is not None and end is not None and end < start:
            raise InvalidArgumentError(
                f"the end {end} of the changes is before their start {start}",
                table=root,
                hint="Swap the start and the end",
                code="DELTA_INVALID_VERSION",
            )
    listed = list_commits(store)
    if not listed:
        raise TableNotFoundError(f"the location has no table: {file_names.LOG} has no commit", table=root)
    latest = listed[-1].version
    # With a starting time, the first commit may be any commit of the log, so all commit times are needed.
    last = ending if ending is not None and since is None else latest
    times = commit_times(store, listed, first or 0, last)
    start = max(first or 0, _first_from(since, times, latest))
    if start > latest and not allow_out_of_range:
        raise VersionNotFoundError(
            f"the start of the changes is after the latest version {latest}",
            table=root,
            version=latest,
            hint="Give an earlier start, or allow_out_of_range=True to get no changes instead",
        )
    stop = min(latest, latest if ending is None else ending, _last_until(until, times, latest))
    missing = [version for version in range(start, stop + 1) if version not in times]
    if missing:
        raise VersionNotFoundError(
            f"commit {missing[0]} was cleaned up, so its changes are lost",
            table=root,
            version=missing[0],
            hint=f"Start at version {max(missing) + 1} or later",
        )
    lost_commits = [
        commit.version for commit in listed if commit.version not in times and (first or 0) <= commit.version <= last
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


def _first_from(moment: int | None, times: dict[int, int], latest: int) -> int:
    if moment is None:
        return 0
    return min((version for version, time in times.items() if time >= moment), default=latest + 1)


def _last_until(moment: int | None, times: dict[int, int], latest: int) -> int:
    if moment is None:
        return latest
    return max((version for version, time in times.items() if time <= moment), default=-1)


def _milliseconds(moment: str | datetime | None, root: str) -> int | None:
    return None if moment is None else round(moment_of(moment, root).timestamp() * 1000)
