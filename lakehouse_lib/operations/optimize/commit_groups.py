"""Commits the finished parts of a long rewrite while it runs, so that a killed run does not lose them.

The parts are in groups that take about the same time. All commits have the read version of the plan. So each commit
detects a file that another writer has removed since the plan was made.
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
from lakehouse_lib.operations.optimize.deletion_vector_rebase import RebasedGroup
from lakehouse_lib.operations.optimize.rewrite import Rewrite, commit_rewrite
from lakehouse_lib.operations.replanning import CommittedChange
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction.commit_properties import CommitProperties

Rows = NDArray[np.int64]

#: A group has about this many bytes for each thread of the engine. After each group, the time since the last commit is
#: checked.
GROUP_BYTES = 512 << 20


def check_commit_interval(interval: object, properties: CommitProperties | None, table: str) -> None:
    """Refuse an interval between commits that is not valid.

    Raises:
        InvalidArgumentError: the interval is not a finite number of seconds from 0, or the properties have application
            transactions, which only one commit may have.
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
            f"min_commit_interval is {interval} and app_transactions are given; expected only one of them",
            table=table,
            hint="Leave out min_commit_interval, because only one commit may have the application transactions",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )


def group_parts(work: Rows, parallelism: int, interval: float | None) -> list[Rows]:
    """Divide the parts of a rewrite into groups of consecutive parts; returns the part numbers of each group.

    Args:
        work: the bytes of each part.
        parallelism: the threads of the engine.
        interval: seconds between commits; None: all parts are one group.
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

    If a group raises a ``DeltaError``, the files of the groups that wait for a commit are deleted.

    Args:
        groups: an iterator that writes the files of a group before it yields the group.
        interval: seconds; None: one commit at the end.
        operation: commitInfo's operation; ``parameters``: its operationParameters.
        started: the ``time.monotonic()`` at which the verb began.

    Yields:
        For each commit, its versions and the rewrite that it contains.

    Raises:
        DeltaError: see ``commit_rewrite``. A commit is skipped if other writers have removed a file of each of its
            parts. If nothing is committed, the error of the last such commit is raised.
    """
    conflict: CommitFailedError | None = None
    has_committed = False
    for rewrite in _at_intervals(groups, interval, snapshot.store):
        try:
            change = commit_rewrite(snapshot, rewrite, operation, parameters, started, properties)
        except ConcurrentDeleteDeleteError as error:  # each of these parts conflicts; later parts may not
            conflict = error
        else:
            has_committed = True
            yield change
    if conflict is not None and not has_committed:
        raise conflict


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

    def places(store: ObjectStore, groups: Mapping[int, RebasedGroup]) -> Mapping[int, Sequence[BitMap64]]:
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
