"""Rewriting files without changing rows, which is what OPTIMIZE is in the log: compaction and clustering share it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import ConcurrentDeleteDeleteError, DeltaError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.log.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.files import size_summary, total_size
from lakehouse_lib.operations.optimize.deletion_vector_rebase import MarkedGroup, Places, marked_groups
from lakehouse_lib.operations.write.write import check_rows_are_kept, discard
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties
from lakehouse_lib.transaction.conflict_checker import find_change

logger = logging.getLogger(__name__)

#: How often rows are looked for that others have marked meanwhile.
_ROUNDS = 10


@dataclass(frozen=True)
class Rewrite:
    """Files and what takes their place, in groups that need nothing of each other.

    Attributes:
        removed, added: files tables.
        removed_groups, added_groups: the group of each of their files.
        places: where rows are now that others have marked as deleted since.
    """

    removed: pa.Table
    removed_groups: NDArray[np.int64]
    added: pa.Table
    added_groups: NDArray[np.int64]
    places: Places

    def split(self, kept: NDArray[np.int64]) -> tuple[Rewrite, Rewrite]:
        """The groups that are in ``kept``, and the others."""
        old, new = np.isin(self.removed_groups, kept), np.isin(self.added_groups, kept)
        return self._where(old, new), self._where(~old, ~new)

    def _where(self, old: NDArray[np.bool_], new: NDArray[np.bool_]) -> Rewrite:
        return Rewrite(
            self.removed.filter(pa.array(old)),
            self.removed_groups[old],
            self.added.filter(pa.array(new)),
            self.added_groups[new],
            self.places,
        )


def rewrite_target(snapshot: Snapshot, *, data_change: bool = False) -> WriteTarget:
    """Where the same rows go again: the table as it is, in files as large as the plan has decided.

    Args:
        data_change: some of the rows do not go there.

    Raises:
        DeltaProtocolError: rows keep their ids in this table, and it does not say where.
        InvalidSchemaError: all rows are to go there, and data files hold none of these columns.
    """
    table, version = snapshot.store.root, snapshot.version
    row_tracking.check_table(snapshot.protocol, snapshot.metadata, snapshot.schema, table=table, version=version)
    target = WriteTarget(
        snapshot.store, snapshot.layout_with_row_ids(), snapshot.configuration, sys.maxsize, data_change
    )
    if not data_change:  # a foreign table may have rows that only the log counts
        check_rows_are_kept(target)
    return target


def commit_rewrite(
    snapshot: Snapshot,
    rewrite: Rewrite,
    parameters: Mapping[str, Any],
    started: float,
    properties: CommitProperties | None,
) -> tuple[int, Rewrite]:
    """Commit a rewrite, but for the groups of which a concurrent commit removed a file; what they wrote is deleted.

    Where others only marked rows as deleted, the marks go on to the rows' new places. A group of which somebody marks
    rows faster than they can be found is left out, too, in the end.

    Args:
        parameters: commitInfo's operationParameters.
        started: the operation's ``time.monotonic()``.

    Returns:
        the table's version after it, and what was committed of the rewrite.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or every group lost a file; what was written is
            deleted.
        CommitUnknownError: the store stopped answering.
    """
    copied = rewrite  # as it was read and written; ``rewrite`` is what of it can be committed by now
    found = _Found({}, {})
    for attempt in count():
        outcome = _transaction(snapshot, parameters, rewrite, started).commit(properties)
        if not isinstance(outcome, Conflict):
            version = version_of(outcome)
            used = pc.is_in(copied.added["path"], value_set=rewrite.added["path"].combine_chunks())
            # Of some others have marked every row.
            discard(snapshot.store, copied.added.filter(pc.invert(used)))
            return version, rewrite
        if not isinstance(outcome.error, ConcurrentDeleteDeleteError):
            discard(snapshot.store, copied.added)
            raise outcome.error
        latest = snapshot.update()
        then, now = ((one.protocol, one.metadata) for one in (snapshot, latest))
        change = find_change(then, now, range(snapshot.version + 1, latest.version + 1), latest.store)
        if change is not None:  # a removed file was only what was met first
            discard(snapshot.store, copied.added)
            raise change from outcome.error
        found = found.after(copied, latest) if attempt < _ROUNDS else _Found({}, {})
        alive = file_keys(latest.file_columns(KEY_COLUMNS), latest.store)
        there = pc.is_in(file_keys(copied.removed.select(KEY_COLUMNS), latest.store), value_set=alive)
        # Of a changed group a file is gone, or has another deletion vector.
        changed = np.unique(copied.removed_groups[~there.to_numpy(zero_copy_only=False)])
        lost = np.setdiff1d(changed, np.array(list(found.marks), np.int64))
        kept, gone = copied.split(np.setdiff1d(copied.removed_groups, lost))
        if not len(changed) or not len(kept.removed):
            discard(snapshot.store, copied.added)
            raise outcome.error
        discard(snapshot.store, gone.added)
        rewrite, copied, snapshot = _marked(kept, found, latest.store), kept, latest
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Found:
    """Groups with marks since they were copied, and for those where they could be found, the rows' new places."""

    groups: Mapping[int, MarkedGroup]
    marks: Mapping[int, Sequence[BitMap64]]

    def after(self, copied: Rewrite, latest: Snapshot) -> _Found:
        """The same for a later version; only what others have marked since is looked for."""
        now = marked_groups((copied.removed, copied.removed_groups), (copied.added, copied.added_groups), latest)
        known = {
            number: self.marks[number]
            for number, group in now.items()
            if number in self.marks and self.groups[number].vectors == group.vectors
        }
        try:
            new = copied.places(latest.store, {number: one for number, one in now.items() if number not in known})
        except DeltaError as error:
            # The others need not fail with them.
            logger.warning("rows of %s that others have deleted since were not found: %s", latest.store.root, error)
            new = {}
        return _Found(now, {**known, **new})


def _marked(rewrite: Rewrite, found: _Found, store: ObjectStore) -> Rewrite:
    """The rewrite of the files as they are now, with the marks of some groups on what was written for them."""
    _, rest = rewrite.split(np.array(list(found.marks), np.int64))
    removed, removed_groups = [rest.removed], [rest.removed_groups]
    added, added_groups = [rest.added], [rest.added_groups]
    for number, marks in found.marks.items():
        group = found.groups[number]
        removed.append(group.removed)
        removed_groups.append(np.full(len(group.removed), number))
        files = group.with_marks(marks, store)
        added.append(files)
        added_groups.append(np.full(len(files), number))
    return Rewrite(
        pa.concat_tables(removed),
        np.concatenate(removed_groups),
        pa.concat_tables(added),
        np.concatenate(added_groups),
        rewrite.places,
    )


def _transaction(
    snapshot: Snapshot, parameters: Mapping[str, Any], rewrite: Rewrite, started: float
) -> OptimisticTransaction:
    removed, added = rewrite.removed, rewrite.added
    transaction = OptimisticTransaction(snapshot, snapshot.store, "OPTIMIZE", parameters)
    transaction.remove(removed, data_change=False)
    transaction.add(added, keeps_row_ids=True)
    transaction.metrics.update(
        numAddedFiles=len(added),
        numRemovedFiles=len(removed),
        numAddedBytes=total_size(added),
        numRemovedBytes=total_size(removed),
        executionTimeMs=int((time.monotonic() - started) * 1000),
    )
    return transaction


def rewrite_metrics(
    considered: int, removed: pa.Table, added: pa.Table, *, partitions: int, batches: int
) -> dict[str, Any]:
    """What delta-rs' ``optimize`` verbs return."""
    return {
        "numFilesAdded": len(added),
        "numFilesRemoved": len(removed),
        "filesAdded": size_summary(added),
        "filesRemoved": size_summary(removed),
        "partitionsOptimized": partitions,
        "numBatches": batches,
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - len(removed),
        "preserveInsertionOrder": False,
    }
