"""Steps that rewrite data files or complete their statistics: ``optimize``, ``z_order``, ``compute_statistics``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import int64s, numbers_of
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.query_cost import clustered_cost, query_cost
from lakehouse_lib.fleet.planner.step import OPEN_BYTES, Effect, Parts, Step
from lakehouse_lib.operations.files import live_share, total_size
from lakehouse_lib.operations.inspect.detail import partition_values
from lakehouse_lib.operations.optimize.compact import plan_compact
from lakehouse_lib.operations.optimize.limit import write_times
from lakehouse_lib.operations.optimize.statistics import plan_statistics
from lakehouse_lib.operations.optimize.z_order.selection import files_to_z_order
from lakehouse_lib.operations.optimize.z_order.z_order import check_columns, default_columns
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.snapshot import Snapshot

Rows = NDArray[np.int64]


def rewrite_step(table: str, snapshot: Snapshot, policy: Policy, partitions: Predicate | None = None) -> Step | None:
    """The preferred step that rewrites files of a version: the first of ``rewrite_steps``, or None."""
    return next(rewrite_steps(table, snapshot, policy, partitions), None)


def rewrite_steps(
    table: str, snapshot: Snapshot, policy: Policy, partitions: Predicate | None = None
) -> Iterator[Step]:
    """The steps that can rewrite files of a version, the preferred step first. At most one of them is run.

    If neither the policy nor the table has Z-order columns, the only step is ``optimize``. Otherwise the first step is
    ``z_order`` if the policy permits it, because ``optimize`` would merge files that are Z-ordered later. The second
    step is ``optimize``, for the case that the Z-order does not pay or exceeds the budget: files that arrive in the
    order of the column need no Z-order, but they must not stay small. There is no step if no file has to be rewritten,
    or if all files are Z-ordered.

    Args:
        partitions: a predicate on partition columns; None: all partitions.

    Raises:
        InvalidArgumentError: ``partitions`` refers to another column, or a column cannot be Z-ordered.
    """
    columns = policy.cluster_by or default_columns(snapshot)
    if columns and "z_order" in policy.verbs:
        step = _z_order(table, snapshot, policy, columns, partitions)
        if step is None:
            return
        yield step
    if "optimize" in policy.verbs and (step := _optimize(table, snapshot, policy, partitions)) is not None:
        yield step


def statistics_step(table: str, snapshot: Snapshot) -> Step | None:
    """The step that adds missing statistics to the log, or None.

    The prediction assumes that every query reads these files now, and will skip them.
    """
    files = plan_statistics(snapshot)
    if not len(files):
        return None
    return Step(
        table,
        "compute_statistics",
        snapshot.version,
        {},
        f"{len(files)} of {snapshot.file_count} files lack statistics, so fewer queries can skip them",
        Effect(files_removed=len(files), files_added=len(files), query_bytes=total_size(files)),
        requests=len(files),
    )


def _optimize(table: str, snapshot: Snapshot, policy: Policy, partitions: Predicate | None) -> Step | None:
    target = target_file_size(snapshot.configuration, policy.target_file_size, table=snapshot.store.root)
    plan = plan_compact(snapshot, target, partitions)
    if not plan.bins:
        return None
    numbers = np.repeat(np.arange(len(plan.bins)), [len(rows) for rows in plan.bins])
    parts = _parts(snapshot, plan.files, np.concatenate(plan.bins), numbers, np.ones(len(plan.bins), np.int64))
    effect = parts.effect()
    return Step(
        table,
        "optimize",
        snapshot.version,
        {"target_size": target},
        f"{effect.files_removed} of {plan.considered} files are small or have many deleted rows; {len(plan.bins)} "
        f"{'file' if len(plan.bins) == 1 else 'files'} can replace them",
        effect,
        parts=parts,
        partitions=parts.partitions(),
    )


def _z_order(
    table: str, snapshot: Snapshot, policy: Policy, columns: Sequence[str], partitions: Predicate | None
) -> Step | None:
    columns = check_columns(snapshot, columns, partitions)
    target = target_file_size(snapshot.configuration, policy.target_file_size, table=snapshot.store.root)
    files = snapshot.prune(partitions)
    chosen = files_to_z_order(snapshot, files, columns, target).parts
    if not chosen:
        return None
    rows, new_files = [part.rows for part in chosen], np.array([part.files for part in chosen], np.int64)
    numbers = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    parts = _parts(snapshot, files, np.concatenate(rows), numbers, new_files)
    saved = max(0, query_cost(snapshot, columns, files) - clustered_cost(snapshot, files, columns, chosen))
    share = parts.bytes_read / max(int(parts.bytes_read.sum()), 1)
    parts = replace(parts, query_bytes=(saved * share).astype(np.int64))
    effect = parts.effect()
    return Step(
        table,
        "z_order",
        snapshot.version,
        {"columns": list(columns), "target_size": target},
        f"{effect.files_removed} of {len(files)} files are not Z-ordered by {', '.join(columns)}, are small, or "
        "belong to runs that are merged",
        effect,
        parts=parts,
        partitions=parts.partitions(),
    )


def _parts(snapshot: Snapshot, files: pa.Table, rows: Rows, numbers: Rows, new_files: Rows) -> Parts:
    """The parts of a rewrite of some files.

    Args:
        rows: the row numbers of the files.
        numbers: for each of these rows, the number of its part, ascending.
        new_files: for each part, the number of files that replace its files.
    """
    count = len(new_files)
    sizes = numbers_of(files["size"], np.int64)[rows]
    live_bytes = (sizes * live_share(files)[rows]).astype(np.int64)
    before = np.bincount(numbers, sizes, minlength=count).astype(np.int64)
    after = np.bincount(numbers, live_bytes, minlength=count).astype(np.int64)
    old_files = np.bincount(numbers, minlength=count).astype(np.int64)
    saved = before - after + (old_files - new_files) * OPEN_BYTES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    oldest = np.minimum.reduceat(write_times(files)[rows], starts)
    first_files = files.select(["partitionValues"]).take(int64s(rows[starts]))
    values = partition_values(snapshot, first_files) if snapshot.partition_columns else None
    return Parts(old_files, new_files, before, after, np.maximum(saved, 0), oldest, values)
