"""Commit rewrites of data files that do not change rows (OPTIMIZE and REORG in the log)."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.stored_schema import check_rows_are_kept
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import CommitFailedError, ConcurrentDeleteDeleteError, DeltaError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.files import discard_paths, size_quantiles, size_summary, total_size
from lakehouse_lib.operations.optimize.deletion_vector_rebase import Places, RebasedGroup, rebased_groups
from lakehouse_lib.operations.replanning import CommittedChange, commit_change
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties

logger = logging.getLogger(__name__)

#: The most times that a rewrite is rebased on concurrent deletion vectors.
_ROUNDS = 100
#: A rewrite fails after this many attempts, if ``_PATIENCE_SECONDS`` have passed since the first attempt began.
_ATTEMPTS = 3
#: In these seconds the number of attempts has no limit. A small table is rewritten quickly, but may change often.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Rewrite:
    """Files and their replacements, in groups that can be committed independently.

    Attributes:
        removed, added: files tables.
        removed_groups, added_groups: the group of each file.
        places: a function that finds the new positions of rows that concurrent commits deleted.
    """

    removed: pa.Table
    removed_groups: NDArray[np.int64]
    added: pa.Table
    added_groups: NDArray[np.int64]
    places: Places

    def only(self, groups: NDArray[np.int64]) -> Rewrite:
        """The part of the rewrite with these groups."""
        old, new = np.isin(self.removed_groups, groups), np.isin(self.added_groups, groups)
        return Rewrite(
            self.removed.filter(pa.array(old)),
            self.removed_groups[old],
            self.added.filter(pa.array(new)),
            self.added_groups[new],
            self.places,
        )


def rewrite_target(
    snapshot: Snapshot, *, data_change: bool = False, writer_properties: WriterProperties | None = None
) -> WriteTarget:
    """The write target of rewritten rows. It has the table's own layout and no target size, because the plan decides.

    Args:
        data_change: whether the rewrite leaves out rows, so that ``dataChange`` of its files is true.

    Raises:
        DeltaProtocolError: the table has row tracking, but does not name the column for row ids.
        InvalidSchemaError: data files cannot store the rows (``check_rows_are_kept``); not checked with
            ``data_change``.
    """
    table, version = snapshot.store.root, snapshot.version
    row_tracking.check_table(snapshot.protocol, snapshot.metadata, snapshot.schema, table=table, version=version)
    target = WriteTarget(
        snapshot.store,
        snapshot.layout_with_row_ids(),
        snapshot.configuration,
        sys.maxsize,
        data_change,
        writer_properties=writer_properties,
    )
    if not data_change:  # in a table of another writer, rows without a stored column exist only as numRecords
        check_rows_are_kept(target)
    return target


def run_with_replanning(snapshot: Snapshot, rewrite: Callable[[Snapshot], ChangeResult]) -> ChangeResult:
    """Run a rewrite. If other writers removed a file of each group, run it again on the latest version.

    A small table has only one group, so a concurrent change of any row would otherwise fail the rewrite. For a minute,
    the number of attempts has no limit. After a minute the rewrite fails, but not before its third attempt.

    Args:
        rewrite: a function that plans the rewrite of a version and commits it.

    Raises:
        ConcurrentDeleteDeleteError: the last attempt failed.
    """
    started = time.monotonic()
    attempts = 0
    while True:
        attempts += 1
        try:
            return rewrite(snapshot)
        except ConcurrentDeleteDeleteError as error:
            if attempts >= _ATTEMPTS and time.monotonic() - started > _PATIENCE_SECONDS:
                raise
            logger.info("planning again, because %s", error)
            snapshot = snapshot.update()


def commit_rewrite(
    snapshot: Snapshot,
    rewrite: Rewrite,
    operation: str,
    parameters: Mapping[str, Any],
    started: float,
    properties: CommitProperties | None,
) -> tuple[CommittedChange, Rewrite]:
    """Commit a rewrite. A group is left out if a concurrent commit removed one of its files.

    If concurrent commits only deleted rows by deletion vectors, the same rows are deleted in the new files. After a
    hundred rebases, groups with new deletion vectors are left out. The new files of groups that are left out are
    deleted.

    Args:
        operation: commitInfo's operation; ``parameters``: its operationParameters.
        started: the operation's ``time.monotonic()``.

    Returns:
        The versions, and the part of the rewrite that was committed.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed a file of every group;
            all new files are deleted.
        CommitUnknownError: the store gave no answer to the commit.
    """
    change = _Rewriting(rewrite, operation, parameters, started, snapshot.store)
    return commit_change(snapshot, change, properties), change.current


class _Rewriting:
    """The ``Change`` of a rewrite, which can be planned on several versions.

    Attributes:
        current: the part of the rewrite that can still be committed.
    """

    replans = (ConcurrentDeleteDeleteError,)

    def __init__(
        self, rewrite: Rewrite, operation: str, parameters: Mapping[str, Any], started: float, store: ObjectStore
    ) -> None:
        self.current = rewrite
        self._copied = rewrite  # the groups of ``current``, as they were read and written
        self._written = rewrite.added  # and the same files with the deletion vectors of each rebase
        self._marks = _Marks({}, {})
        self._rounds = 0
        self._operation = operation
        self._parameters = parameters
        self._started = started
        self._store = store

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction:
        if lost is not None:
            self._plan_again(snapshot, lost)
            self._rounds += 1
        return _change(self._operation, self._parameters, self.current, self._started).on(snapshot, snapshot.store)

    def discard(self, *, committed: bool) -> None:
        written = _stored(self._written, self._store)
        committed_paths = _stored(self.current.added, self._store) if committed else written.slice(0, 0)
        discard_paths(self._store, written.filter(pc.invert(pc.is_in(written, value_set=committed_paths))))

    def _plan_again(self, latest: Snapshot, lost: CommitFailedError) -> None:
        """Leave out the groups with a removed file, and rebase the other groups on new deletion vectors."""
        copied = self._copied
        self._marks = self._marks.after(copied, latest) if self._rounds < _ROUNDS else _Marks({}, {})
        alive = file_keys(latest.file_columns(KEY_COLUMNS), latest.store)
        is_alive = pc.is_in(file_keys(copied.removed.select(KEY_COLUMNS), latest.store), value_set=alive)
        # A group has changed if one of its files was removed or got another deletion vector.
        changed = np.unique(copied.removed_groups[~is_alive.to_numpy(zero_copy_only=False)])
        conflicting = np.setdiff1d(changed, np.array(list(self._marks.places), np.int64))
        copied = copied.only(np.setdiff1d(copied.removed_groups, conflicting))
        if not len(changed) or not len(copied.removed):
            raise lost
        self._copied, self.current = copied, _with_marks(copied, self._marks, latest.store)
        self._written = pa.concat_tables([self._written, self.current.added])


@dataclass(frozen=True)
class _Marks:
    """The rows that concurrent commits have deleted by deletion vectors since the rewrite copied them.

    Attributes:
        groups: the groups with such rows, by number.
        places: group number -> the positions of these rows in each file of the group's ``added``. A group with unknown
            positions is missing.
    """

    groups: Mapping[int, RebasedGroup]
    places: Mapping[int, Sequence[BitMap64]]

    def after(self, copied: Rewrite, latest: Snapshot) -> _Marks:
        """The marks at a later version. The places of groups without a new deletion vector are reused."""
        now = rebased_groups((copied.removed, copied.removed_groups), (copied.added, copied.added_groups), latest)
        unchanged = {
            number: self.places[number]
            for number, group in now.items()
            if number in self.places and self.groups[number].vectors == group.vectors
        }
        try:
            new = copied.places(
                latest.store, {number: group for number, group in now.items() if number not in unchanged}
            )
        except DeltaError as error:
            # Do not fail, because groups without these rows can be committed.
            logger.warning("%s: cannot find the new places of rows that were deleted: %s", latest.store.root, error)
            new = {}
        return _Marks(now, {**unchanged, **new})


def _stored(files: pa.Table, store: ObjectStore) -> pa.Array:
    """The store paths of new data files and of the files of their deletion vectors, each once."""
    vectors = deletion_vector.paths_of(store, files["deletionVector"])
    return pc.unique(pa.concat_arrays([file_paths.canonical(files["path"], store), vectors]))


def _with_marks(rewrite: Rewrite, marks: _Marks, store: ObjectStore) -> Rewrite:
    """The rewrite with the files of the latest version, and with the marked rows deleted in the new files."""
    unmarked = rewrite.only(np.setdiff1d(rewrite.removed_groups, np.array(list(marks.places), np.int64)))
    removed, removed_groups = [unmarked.removed], [unmarked.removed_groups]
    added, added_groups = [unmarked.added], [unmarked.added_groups]
    for number, places in marks.places.items():
        group = marks.groups[number]
        removed.append(group.removed)
        removed_groups.append(np.full(len(group.removed), number))
        files = group.with_deletions(places, store)
        added.append(files)
        added_groups.append(np.full(len(files), number))
    return Rewrite(
        pa.concat_tables(removed),
        np.concatenate(removed_groups),
        pa.concat_tables(added),
        np.concatenate(added_groups),
        rewrite.places,
    )


def _change(operation: str, parameters: Mapping[str, Any], rewrite: Rewrite, started: float) -> TableChange:
    removed, added = rewrite.removed, rewrite.added
    metrics = _commit_metrics(removed, added, started)
    return TableChange(operation, parameters, added, removed, moves_rows=True, keeps_row_ids=True, metrics=metrics)


def _commit_metrics(removed: pa.Table, added: pa.Table, started: float) -> dict[str, Any]:
    """commitInfo's operationMetrics of OPTIMIZE."""
    return {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": total_size(added),
        "numRemovedBytes": total_size(removed),
        "numDeletionVectorsRemoved": len(removed) - removed["deletionVector"].null_count,
        **size_quantiles(added),
        "executionTimeMs": int((time.monotonic() - started) * 1000),
    }


def rewrite_metrics(
    considered: int, removed: pa.Table, added: pa.Table, *, partitions: int, batches: int, started: float
) -> dict[str, Any]:
    """The metrics of a result: the commit's metrics, and the other metrics of delta-spark's OPTIMIZE.

    Args:
        considered: number of live files from which the verb chose.
        started: the operation's ``time.monotonic()``.
    """
    return {
        **_commit_metrics(removed, added, started),
        "filesAdded": size_summary(added),
        "filesRemoved": size_summary(removed),
        "partitionsOptimized": partitions,
        "numBatches": batches,
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - len(removed),
    }
