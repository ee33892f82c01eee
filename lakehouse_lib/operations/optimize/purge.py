"""Rewrite files with a deletion vector without the deleted rows (REORG TABLE ... APPLY (PURGE) in delta-spark)."""

from __future__ import annotations

import time

import numpy as np
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.files import partition_codes
from lakehouse_lib.operations.optimize.compact import CompactPlan, rewrite_bins
from lakehouse_lib.operations.optimize.rewrite import run_with_replanning
from lakehouse_lib.operations.partition_predicate import check_partition_predicate
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_purge(snapshot: Snapshot, predicate: Predicate | None = None) -> CompactPlan:
    """The files with a deletion vector, each of which is rewritten alone. Reads no data; also the dry run.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
    """
    check_partition_predicate(snapshot, predicate)
    files = snapshot.prune(predicate)
    marked = np.flatnonzero(flags_of(pc.is_valid(files["deletionVector"])))
    partitions = len(np.unique(partition_codes(files, snapshot.layout)[marked]))
    return CompactPlan(len(files), files, tuple(np.array([row]) for row in marked), partitions)


def purge(
    snapshot: Snapshot,
    engine: Engine,
    *,
    predicate: Predicate | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Rewrite every file with a deletion vector, so that no file of the new version contains a deleted row.

    Files of older versions still contain these rows until a vacuum deletes the files. Compaction rewrites a large file
    only if more than 5% of its rows are deleted. Rows that a concurrent commit deletes by a deletion vector stay
    deleted, and stay in the rewritten file until the next purge.

    Args:
        predicate: on partition columns; None: the whole table.

    Returns:
        The metrics of ``compact``. If no file has a deletion vector, nothing is committed.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed all of the files in each
            attempt (``rewrite.run_with_replanning``).
    """
    started = time.monotonic()
    snapshot.check_writable()
    parameters = {"predicate": "[]" if predicate is None else [predicate.text], "applyPurge": True}

    def attempt(snapshot: Snapshot) -> ChangeResult:
        plan = plan_purge(snapshot, predicate)
        return rewrite_bins(snapshot, engine, plan, "REORG", parameters, started, commit_properties)

    return run_with_replanning(snapshot, attempt)
