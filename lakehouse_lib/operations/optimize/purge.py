"""Rewrite files without deleted rows and dropped columns (REORG TABLE ... APPLY (PURGE) in delta-spark)."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, flags_of
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.surplus_columns import SurplusTask, find_surplus
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import row_tracking
from lakehouse_lib.operations.files import file_shares, partition_codes
from lakehouse_lib.operations.optimize.compact import CompactPlan, rewrite_bins
from lakehouse_lib.operations.optimize.rewrite import run_with_replanning
from lakehouse_lib.operations.partition_predicate import check_partition_predicate
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.progress import OnProgress
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_purge(snapshot: Snapshot, engine: Engine, predicate: Predicate | None = None) -> CompactPlan:
    """The files with a deletion vector or a surplus column, each of which is rewritten alone.

    Reads no data. In a table with column mapping, reads the footer of each file without a deletion vector.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
        ObjectNotFoundError: a data file does not exist.
        StoreError: a data file is not a Parquet file, or is damaged.
    """
    check_partition_predicate(snapshot, predicate)
    files = snapshot.prune(predicate)
    is_purged = flags_of(pc.is_valid(files["deletionVector"]))
    if snapshot.layout.mapping != "none":  # without column mapping, no column can be dropped
        surplus = _paths_with_surplus(snapshot, engine, files.select(["path"]).filter(bools(~is_purged)))
        is_purged = is_purged | flags_of(pc.is_in(files["path"], value_set=surplus))
    rows = np.flatnonzero(is_purged)
    partitions = len(np.unique(partition_codes(files, snapshot.layout)[rows]))
    return CompactPlan(len(files), files, tuple(np.array([row]) for row in rows), partitions)


def _paths_with_surplus(snapshot: Snapshot, engine: Engine, files: pa.Table) -> pa.Array:
    """The log paths of the files with a column that the table does not have; ``files`` has the column ``path``."""
    names = (snapshot.configuration.get(key) for key in row_tracking.COLUMN_PROPERTIES)
    materialized = frozenset(name for name in names if name is not None)
    tasks = [
        SurplusTask(snapshot.store, snapshot.layout, materialized, share["path"])
        for share in file_shares(files, engine.parallelism)
    ]
    return engine.run(find_surplus, tasks)["path"].combine_chunks() if tasks else pa.array([], pa.string())


def purge(
    snapshot: Snapshot,
    engine: Engine,
    *,
    predicate: Predicate | None = None,
    commit_properties: CommitProperties | None = None,
    on_progress: OnProgress | None = None,
) -> ChangeResult:
    """Rewrite every file with a deletion vector or a dropped column, without the deleted rows and dropped columns.

    Files of older versions still contain them until a vacuum deletes the files. Compaction rewrites a large file
    only if more than 5% of its rows are deleted. Rows that a concurrent commit deletes by a deletion vector stay
    deleted, and stay in the rewritten file until the next purge.

    In a table with column mapping, this reads the footer of every file. Other tables have no dropped columns.

    Args:
        predicate: on partition columns; None: the whole table.
        on_progress: called when a task has rewritten a file.

    Returns:
        The metrics of ``compact``. If no file has a deletion vector or a dropped column, nothing is committed.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
        ObjectNotFoundError: a data file does not exist.
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed all of the files in each
            attempt (``rewrite.run_with_replanning``).
    """
    started = time.monotonic()
    snapshot.check_writable()
    parameters = {"predicate": "[]" if predicate is None else [predicate.text], "applyPurge": True}

    def attempt(snapshot: Snapshot) -> ChangeResult:
        plan = plan_purge(snapshot, engine, predicate)
        return rewrite_bins(
            snapshot, engine, plan, "REORG", parameters, started, commit_properties, on_progress=on_progress
        )

    return run_with_replanning(snapshot, attempt)
