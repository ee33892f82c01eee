"""Merge small files: fewer, larger ones with the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow_values import int64s
from lakehouse_lib.commit_properties import CommitProperties
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.copying import COPIED_COLUMNS, copy_reader
from lakehouse_lib.engine.data_reader import TableReader
from lakehouse_lib.engine.data_writer import DataFileWriter, target_size_of
from lakehouse_lib.engine.file_rows import files_table
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.carried_marks import places_in_order
from lakehouse_lib.operations.files import partition_codes
from lakehouse_lib.operations.rewrite import Rewrite, commit_rewrite, rewrite_metrics, rewrite_target
from lakehouse_lib.predicates import Predicate
from lakehouse_lib.schema.column_mapping import Mode
from lakehouse_lib.snapshot import Snapshot

#: Result column: the bin a written file is of.
_BIN = "bin"


@dataclass(frozen=True)
class CompactTask:
    """Write the rows of ``files`` (COPIED_COLUMNS, one partition) into one file."""

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

    A file that a concurrent commit removed costs its own bin only; the others are committed. Rows that were marked as
    deleted meanwhile (a deletion vector) are so in the merged file.

    Args:
        target_size: bytes; default ``delta.targetFileSize``, else 100 MiB (delta-rs' default; delta-spark's is 1 GiB,
            which one task must read and write alone).
        predicate: on partition columns.

    Returns:
        The metrics of delta-rs' ``optimize.compact`` (numFilesAdded, numFilesRemoved, filesAdded, filesRemoved,
        partitionsOptimized, numBatches, totalConsideredFiles, totalFilesSkipped, ...) and ``version``, the table's
        version after it. When there is nothing to merge all are zero and nothing is committed.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or every bin lost a file to another writer.
    """
    started = time.monotonic()
    snapshot.check_writable()
    size = target_size_of(snapshot.configuration, target_size, table=snapshot.store.root)
    plan = plan_compact(snapshot, size, predicate)
    if not plan.bins:
        nothing = plan.files.slice(0, 0)
        metrics = rewrite_metrics(plan.considered, nothing, nothing, partitions=0, batches=0)
        return {**metrics, "version": snapshot.version}
    target = rewrite_target(snapshot)
    chosen = plan.files.select(COPIED_COLUMNS)
    tasks = [
        CompactTask(number, target, chosen.take(_indices(rows)), snapshot.column_mapping)
        for number, rows in enumerate(plan.bins)
    ]
    # The largest first, so that none of them is left over for the end.
    weights = [int(plan.files["size"].to_numpy()[rows].sum()) for rows in plan.bins]
    written = engine.run(merge_files, [task for _, task in sorted(zip(weights, tasks, strict=True), key=_heaviest)])
    chosen_rows = np.concatenate([np.zeros(0, np.int64), *plan.bins])
    rewrite = Rewrite(
        plan.files.take(_indices(chosen_rows)),
        np.repeat(np.arange(len(plan.bins)), [len(rows) for rows in plan.bins]),
        written.drop_columns([_BIN]),
        written[_BIN].to_numpy(),
        places_in_order,
    )
    parameters = {"predicate": "[]", "zOrderBy": "[]", "auto": False, "targetSize": size}
    version, done = commit_rewrite(snapshot, rewrite, parameters, started, commit_properties)
    metrics = rewrite_metrics(
        plan.considered, done.removed, done.added, partitions=plan.partitions, batches=len(plan.bins)
    )
    return {**metrics, "version": version}


def merge_files(task: CompactTask) -> pa.Table:
    """A compaction task: one file from many, a row group in memory at a time; a files table with its bin."""
    target = task.target
    reader = copy_reader(target, task.mapping)
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


def _indices(rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.array(rows, pa.int64())
