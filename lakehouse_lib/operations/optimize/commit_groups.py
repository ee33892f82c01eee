"""Commits of finished parts of a rewrite during a long run, so that a killed run keeps them.

The parts are in groups that take about the same time. All commits have the read version of the plan, so that a file
that another writer removes is noticed, whenever that happens.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.errors import CommitFailedError, ConcurrentDeleteDeleteError, DeltaError, InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.optimize.deletion_vector_rebase import MarkedGroup
from lakehouse_lib.operations.optimize.rewrite import Rewrite, commit_rewrite
from lakehouse_lib.operations.replanning import CommittedChange
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.commit_properties import CommitProperties

Rows = NDArray[np.int64]

#: The bytes that each thread of an engine reads before the time since the last commit is compared with the interval.
GROUP_BYTES = 512 << 20


def check_commit_interval(interval: object, properties: CommitProperties | None, table: str) -> None:
    """Refuse an interval between commits that is not valid.

    Raises:
        InvalidArgumentError: it is not a number of seconds from 0, or the properties have application transactions,
            which only one commit may have.
    """
    if interval is None:
        return
    if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0 <= interval < math.inf:
        raise InvalidArgumentError(
            f"min_commit_interval is {excerpt(interval)}; expected a number of seconds from 0",
            table=table,
            hint="None commits once, at the end",
        )
    if properties is not None and properties.app_transactions:
        raise InvalidArgumentError(
            "min_commit_interval allows several commits, and app_transactions are in one commit only",
            table=table,
            hint="Leave out one of them",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )


def in_groups(work: Rows, parallelism: int, interval: float | None) -> list[Rows]:
    """The groups of parts, as their numbers in order; without an interval all parts are one group.

    Args:
        work: the bytes of each part.
    """
    numbers = np.arange(len(work))
    if interval is None:
        return [numbers]
    starts = np.flatnonzero(np.diff((np.cumsum(work) - work) // (GROUP_BYTES * parallelism), prepend=-1))
    return np.split(numbers, starts[1:])


def commit_groups(
    snapshot: Snapshot,
    groups: Iterable[Rewrite],
    interval: float | None,
    operation: str,
    parameters: Mapping[str, Any],
    started: float,
    properties: CommitProperties | None,
) -> Iterator[tuple[CommittedChange, Rewrite]]:
    """Commit finished groups whenever the interval has passed since the last commit, and at the end.

    If the next group raises an error, the files of groups that wait for a commit are deleted.

    Args:
        groups: writes the files of a group when it is iterated.
        operation: commitInfo's operation; ``parameters``: its operationParameters.
        started: the verb's ``time.monotonic()``.

    Yields:
        After each commit the versions, and the part of the groups that was committed.

    Raises:
        DeltaError: as ``commit_rewrite``. A commit whose parts have each lost a file to another writer is left out, and
            raises nothing if another commit succeeds.
    """
    lost: CommitFailedError | None = None
    has_committed = False
    for rewrite in _at_intervals(groups, interval, snapshot.store):
        try:
            change = commit_rewrite(snapshot, rewrite, operation, parameters, started, properties)
        except ConcurrentDeleteDeleteError as error:  # of all of these parts; the others may not conflict
            lost = error
        else:
            has_committed = True
            yield change
    if lost is not None and not has_committed:
        raise lost


def _at_intervals(groups: Iterable[Rewrite], interval: float | None, store: ObjectStore) -> Iterator[Rewrite]:
    pending: list[Rewrite] = []
    last_commit = time.monotonic()
    try:
        for group in groups:
            pending.append(group)
            if interval is not None and time.monotonic() - last_commit >= interval:
                rewrite, pending = _together(pending), []
                yield rewrite
                last_commit = time.monotonic()
    except DeltaError:
        for group in pending:
            discard(store, group.added)
        raise
    if pending:
        yield _together(pending)


def _together(rewrites: Sequence[Rewrite]) -> Rewrite:
    if len(rewrites) == 1:
        return rewrites[0]

    def places(store: ObjectStore, groups: Mapping[int, MarkedGroup]) -> Mapping[int, Sequence[BitMap64]]:
        result: dict[int, Sequence[BitMap64]] = {}
        for rewrite in rewrites:
            own = {number: groups[number] for number in np.unique(rewrite.removed_groups).tolist() if number in groups}
            result |= rewrite.places(store, own) if own else {}
        return result

    return Rewrite(
        pa.concat_tables([rewrite.removed for rewrite in rewrites]),
        np.concatenate([rewrite.removed_groups for rewrite in rewrites]),
        pa.concat_tables([rewrite.added for rewrite in rewrites]),
        np.concatenate([rewrite.added_groups for rewrite in rewrites]),
        places,
    )
