"""Merge small files: fewer, larger ones with the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.actions import CommitProperties
from lakehouse_lib.arrow_values import int64s
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.data_reader import TableReader, select
from lakehouse_lib.engine.data_writer import DataFileWriter, file_schema, target_size_of
from lakehouse_lib.engine.file_rows import files_table
from lakehouse_lib.errors import ConcurrentDeleteDeleteError, InvalidArgumentError
from lakehouse_lib.log.keys import file_keys
from lakehouse_lib.operations.append import discard
from lakehouse_lib.operations.files import partition_codes
from lakehouse_lib.operations.rewrite import rewrite_metrics, rewrite_target, rewrite_transaction
from lakehouse_lib.predicates import Predicate
from lakehouse_lib.schema.column_mapping import Mode
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import Committed

#: Result column: the bin a written file is of.
_BIN = "bin"


@dataclass(frozen=True)
class CompactTask:
    """Write the rows of ``files`` (one partition; path, partitionValues and deletionVector) into one file."""

    number: int
    target: WriteTarget
    files: pa.Table
    mapping: Mode


@dataclass(frozen=True)
class CompactPlan:
    """What a run will do; also the dry run.

    Attributes:
        considered: live files that the predicate selects.
        bins: files to merge into one each, as row numbers into ``files``; of one partition and two at least.
        files: the considered files.
        partitions: partitions the bins are of.
    """

    considered: int
    files: pa.Table
    bins: tuple[np.ndarray[Any, np.dtype[np.int64]], ...]
    partitions: int


def plan_compact(snapshot: Snapshot, target_size: int, predicate: Predicate | None = None) -> CompactPlan:
    """Next-fit on size-sorted files below the target, partition by partition (delta-spark's OPTIMIZE).

    Raises:
        InvalidArgumentError: the predicate reads more than partition columns.
    """
    if predicate is not None and not predicate.partition_only(snapshot.partition_columns):
        raise InvalidArgumentError(
            f"compaction cannot be limited by {predicate.sql}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f"Filter by partition columns only: {', '.join(snapshot.partition_columns) or 'this table has none'}",
        )
    files = snapshot.prune(predicate)
    sizes = files["size"].to_numpy()
    codes = partition_codes(files, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping)
    small = np.flatnonzero(sizes < target_size)
    order = small[np.lexsort([sizes[small], codes[small]])]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    bins = []
    for part in np.split(order, starts[1:]) if len(order) else []:
        bins += [one for one in _next_fit(part, sizes[part], target_size) if len(one) > 1]
    partitions = len(np.unique(codes[[one[0] for one in bins]])) if bins else 0
    return CompactPlan(len(files), files, tuple(bins), partitions)


def compact(
    snapshot: Snapshot,
    engine: Engine,
    *,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    commit_properties: CommitProperties | None = None,
) -> dict[str, Any]:
    """Merge files smaller than the target; rows stay the same, so no reader and no appender conflicts.

    A file that a concurrent commit removed costs its own bin only; the others are committed.

    Args:
        target_size: bytes; default ``delta.targetFileSize``, else 100 MiB (delta-rs' default; delta-spark's is 1 GiB,
            which one task must read and write alone).
        predicate: on partition columns.

    Returns:
        The metrics of delta-rs' ``optimize.compact`` (numFilesAdded, numFilesRemoved, filesAdded, filesRemoved,
        partitionsOptimized, numBatches, totalConsideredFiles, totalFilesSkipped, ...) and ``version``, the table's
        version after it. When there is nothing to merge all are zero and nothing is committed.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol.
    """
    started = time.monotonic()
    snapshot.check_writable()
    size = target_size_of(snapshot.configuration, target_size, table=snapshot.store.root)
    plan = plan_compact(snapshot, size, predicate)
    target = rewrite_target(snapshot)
    chosen = plan.files.select(["path", "partitionValues", "deletionVector"])
    tasks = [
        CompactTask(number, target, chosen.take(_indices(rows)), snapshot.column_mapping)
        for number, rows in enumerate(plan.bins)
    ]
    # The largest first, so that none of them is left over for the end.
    weights = [int(plan.files["size"].to_numpy()[rows].sum()) for rows in plan.bins]
    written = engine.run(merge_files, [task for _, task in sorted(zip(weights, tasks, strict=True), key=_heaviest)])
    version, added, removed = _commit(snapshot, plan, written, size, started, commit_properties)
    metrics = rewrite_metrics(plan.considered, removed, added, partitions=plan.partitions, batches=len(plan.bins))
    return {**metrics, "version": version}


def merge_files(task: CompactTask) -> pa.Table:
    """A compaction task: one file from many, a row group in memory at a time; a files table with its bin."""
    target = task.target
    stored = file_schema(target.schema, target.partition_columns)
    reader = TableReader(target.store, select(target.schema, stored.names), (), task.mapping)
    values = dict(task.files["partitionValues"][0].as_py() or ())
    writer = DataFileWriter(target, {name: values.get(name) for name in target.partition_columns})
    try:
        for rows in _all_rows(reader, task.files):
            writer.write(rows)
        files = files_table(writer.finish(), data_change=False)
    except BaseException:
        writer.abort()
        raise
    return files.append_column(_BIN, int64s([task.number] * len(files)))


def _all_rows(reader: TableReader, files: pa.Table) -> Iterator[pa.Table]:
    for file, _ in reader.files(files):
        for group in range(file.num_row_groups):
            yield reader.row_group(file, group, {})


def _next_fit(
    rows: np.ndarray[Any, np.dtype[np.int64]], sizes: np.ndarray[Any, np.dtype[np.int64]], target: int
) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Rows, by ascending size, cut wherever the next file would pass the target."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        before = total[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(total, before + target, side="right")))
        yield rows[start:end]
        start = end


def _heaviest(entry: tuple[int, CompactTask]) -> tuple[int, int]:
    return -entry[0], entry[1].number


def _commit(
    snapshot: Snapshot,
    plan: CompactPlan,
    written: pa.Table,
    size: int,
    started: float,
    properties: CommitProperties | None,
) -> tuple[int, pa.Table, pa.Table]:
    """Commit what was merged, but for bins that lost a file meanwhile; (version, added, removed)."""
    nothing = plan.files.slice(0, 0)
    bins = dict(enumerate(plan.bins))
    while bins:
        added = written.filter(pc.is_in(written[_BIN], value_set=pa.array(list(bins)))).drop_columns([_BIN])
        removed = plan.files.take(_indices(np.concatenate(list(bins.values()))))
        parameters = {"predicate": "[]", "zOrderBy": "[]", "auto": False, "targetSize": size}
        outcome = rewrite_transaction(snapshot, parameters, removed, added, started).commit(properties)
        if isinstance(outcome, Committed):
            return outcome.version, added, removed
        latest = snapshot.update()
        live = file_keys(latest.files, latest.store)
        there = pc.is_in(file_keys(plan.files, snapshot.store), value_set=live).to_numpy(zero_copy_only=False)
        kept = {number: rows for number, rows in bins.items() if there[rows].all()}
        if not isinstance(outcome.error, ConcurrentDeleteDeleteError) or len(kept) == len(bins):
            discard(snapshot.store, written)
            raise outcome.error
        lost = pa.array([number for number in bins if number not in kept], pa.int64())
        discard(snapshot.store, written.filter(pc.is_in(written[_BIN], value_set=lost)))
        bins, snapshot = kept, latest
    return snapshot.version, nothing, nothing


def _indices(rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.array(rows, pa.int64())
