"""Rewriting files without changing rows, which is what OPTIMIZE is in the log: compaction and clustering share it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.actions import CommitProperties
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import ConcurrentDeleteDeleteError
from lakehouse_lib.log.keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.append import discard
from lakehouse_lib.operations.files import size_summary, total_size
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of


@dataclass(frozen=True)
class Rewrite:
    """Files and what takes their place, in groups that need nothing of each other.

    Attributes:
        removed, added: files tables.
        removed_groups, added_groups: the group of each of their files.
    """

    removed: pa.Table
    removed_groups: NDArray[np.int64]
    added: pa.Table
    added_groups: NDArray[np.int64]

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
        )


def rewrite_target(snapshot: Snapshot) -> WriteTarget:
    """Where the same rows go again: the table as it is, in files as large as the plan has decided."""
    return WriteTarget(
        snapshot.store,
        snapshot.schema,
        snapshot.partition_columns,
        snapshot.configuration,
        sys.maxsize,
        data_change=False,
    )


def commit_rewrite(
    snapshot: Snapshot,
    rewrite: Rewrite,
    parameters: Mapping[str, Any],
    started: float,
    properties: CommitProperties | None,
) -> tuple[int, Rewrite]:
    """Commit a rewrite, but for the groups of which a concurrent commit removed a file; what they wrote is deleted.

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
    while len(rewrite.removed):
        outcome = _transaction(snapshot, parameters, rewrite, started).commit(properties)
        if not isinstance(outcome, Conflict):
            return version_of(outcome), rewrite
        latest = snapshot.update()
        there = np.isin(
            file_keys(rewrite.removed.select(KEY_COLUMNS), snapshot.store).to_numpy(zero_copy_only=False),
            file_keys(latest.file_columns(KEY_COLUMNS), latest.store).to_numpy(zero_copy_only=False),
        )
        whole = np.setdiff1d(rewrite.removed_groups, rewrite.removed_groups[~there])
        if not isinstance(outcome.error, ConcurrentDeleteDeleteError) or there.all() or not len(whole):
            discard(snapshot.store, rewrite.added)
            raise outcome.error
        rewrite, lost = rewrite.split(whole)
        discard(snapshot.store, lost.added)
        snapshot = latest
    return snapshot.version, rewrite


def _transaction(
    snapshot: Snapshot, parameters: Mapping[str, Any], rewrite: Rewrite, started: float
) -> OptimisticTransaction:
    removed, added = rewrite.removed, rewrite.added
    transaction = OptimisticTransaction(snapshot, snapshot.store, "OPTIMIZE", parameters)
    transaction.remove(removed, data_change=False)
    transaction.add(added)
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
