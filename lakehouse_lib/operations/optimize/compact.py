"""Merge small files into fewer and larger files with the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import int64s, numbers_of
from lakehouse_lib.engine.base import Engine, OnTask, WriteTarget, after, is_small
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS, TableReader, copy_reader
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of, results_of
from lakehouse_lib.engine.parquet.writer import DataFileWriter
from lakehouse_lib.engine.parquet.written_files import files_table
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.files import has_many_deleted_rows, live_share, partition_codes
from lakehouse_lib.operations.optimize.commit_groups import check_commit_interval, commit_groups, group_parts
from lakehouse_lib.operations.optimize.deletion_vector_rebase import positions_by_count
from lakehouse_lib.operations.optimize.limit import check_max_bytes, limited_parts
from lakehouse_lib.operations.optimize.rewrite import (
    Rewrite,
    rewrite_metrics,
    rewrite_target,
    run_with_replanning,
)
from lakehouse_lib.operations.optimize.z_order.tags import TAG_COLUMNS, copy_tags, target_sizes
from lakehouse_lib.operations.partition_predicate import check_partition_predicate
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.progress import Counter, OnProgress
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.schema import TableLayout
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties

Rows = NDArray[np.int64]

#: The bytes that a thread could read in the time that it takes to open a file.
_OPEN_BYTES = 4 << 20
#: Column in the result of ``write_bins``: the number of the bin.
BIN = "bin"


@dataclass(frozen=True)
class CompactTask:
    """A task that writes the rows of some files into one file.

    Attributes:
        number: the number of the bin.
        target: the table.
        files: COPIED_COLUMNS and TAG_COLUMNS of the files, which are in one partition.
        source: the layout of the files; None: the layout of the target.
    """

    number: int
    target: WriteTarget
    files: pa.Table
    source: TableLayout | None = None


@dataclass(frozen=True)
class CompactPlan:
    """The files that a compaction will merge, computed from the log.

    Attributes:
        considered: number of live files that the predicate selects.
        files: the considered files.
        bins: row numbers in ``files``; the files of a bin become one file (``compaction_bins``).
        partitions: number of partitions with a bin.
    """

    considered: int
    files: pa.Table
    bins: tuple[Rows, ...]
    partitions: int


def plan_compact(
    snapshot: Snapshot, target_size: int, predicate: Predicate | None = None, max_bytes: int | None = None
) -> CompactPlan:
    """Plan the compaction of a version. Reads no data.

    Args:
        max_bytes: a limit for the bytes to read (``limit.limited_parts``); None: no limit.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
    """
    check_partition_predicate(snapshot, predicate)
    files = _considered_files(snapshot, predicate)
    codes = partition_codes(files, snapshot.layout)
    bins = compaction_bins(files, codes, target_size)
    if max_bytes is not None and bins:
        bins = tuple(bins[number] for number in limited_parts(files, bins, max_bytes))
    partitions = len(np.unique(codes[[rows[0] for rows in bins]])) if bins else 0
    return CompactPlan(len(files), files, bins, partitions)


def _considered_files(snapshot: Snapshot, predicate: Predicate | None) -> pa.Table:
    """The files from which a compaction chooses, without statistics, which are more than half of the log.

    If any file has a deletion vector, the statistics of all files are included, because the share of deleted rows is
    computed from ``numRecords``.
    """
    place = FILE_SCHEMA.get_field_index("stats")
    files = snapshot.prune(predicate, [name for name in FILE_SCHEMA.names if name != "stats"])
    if files["deletionVector"].null_count < len(files):
        return snapshot.prune(predicate)
    return files.add_column(place, FILE_SCHEMA.field(place), pa.nulls(len(files), pa.string()))


def compaction_bins(files: pa.Table, partitions: Rows, target_size: int) -> tuple[Rows, ...]:
    """The files of a version that compaction rewrites, as row numbers; each entry becomes one file.

    Small files (below half of the target) of a partition are merged, next-fit by ascending size as in delta-spark's
    OPTIMIZE. A bin of a single small file is left out. A file of which a deletion vector deletes more than 5% of the
    rows is always rewritten. Its size is estimated without the deleted rows. If this size is not small, the file is
    rewritten alone.

    Args:
        files: a files table.
        partitions: a number for each file, equal for files of a partition.
        target_size: bytes of a file to write.
    """
    sizes = numbers_of(files["size"], np.int64)
    many_deleted = has_many_deleted_rows(files)
    if many_deleted.any():  # with the full sizes the copies could be small, and the next compaction would merge them
        sizes = np.where(many_deleted, sizes * live_share(files), sizes).astype(np.int64)
    small = small_files(files, target_size, sizes)
    order = np.flatnonzero(small)
    order = order[np.lexsort([sizes[order], partitions[order]])]
    starts = _next_fit(partitions[order], sizes[order], target_size)
    is_bin = (np.diff(starts, append=len(order)) > 1) | many_deleted[order[starts]]
    ends = np.append(starts, len(order))[1:]
    bins = [order[start:end] for start, end in zip(starts[is_bin], ends[is_bin], strict=True)]
    return (*bins, *(np.array([row]) for row in np.flatnonzero(many_deleted & ~small)))


def small_files(files: pa.Table, target_size: int, sizes: Rows | None = None) -> NDArray[np.bool_]:
    """Which files of a files table are below half of the target.

    A Z-ordered file is compared with the target size of its Z-order run, if that is smaller than the target. So
    compaction does not undo a Z-order with small files.

    Args:
        sizes: bytes of each file; None: the column ``size``.
    """
    run_sizes = target_sizes(files)
    targets = np.where(run_sizes, np.minimum(run_sizes, target_size), target_size)
    return is_small(numbers_of(files["size"], np.int64) if sizes is None else sizes, targets)


def compact(
    snapshot: Snapshot,
    engine: Engine,
    *,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    max_bytes: int | None = None,
    min_commit_interval: float | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    on_progress: OnProgress | None = None,
) -> ChangeResult:
    """Merge files below half of the target size. No row changes, so the commit does not conflict with appends.

    Files of which a deletion vector deletes more than 5% of the rows are rewritten without these rows. Z-ordered files
    stay, unless they are small for their run. ``compaction_bins`` has the rules.

    If a concurrent commit removes a file, only the bin of this file is left out. If concurrent commits removed a file
    of each bin, the compaction is planned again on the latest version. After a minute it fails, but not before its
    third plan. Rows that a concurrent commit hides by a deletion vector are hidden in the merged file too.

    Args:
        target_size: bytes; default ``delta.targetFileSize``, else 100 MiB (delta-rs' default; delta-spark's is 1 GiB,
            which one task must read and write alone).
        predicate: on partition columns; None: the whole table.
        max_bytes: a limit for the bytes to read. The bin with the oldest file is merged first, then the bins with the
            smallest files. Larger bins are left out. None: no limit.
        min_commit_interval: seconds. Finished bins are committed when this time has passed since the last commit, and
            at the end, so that a killed run does not lose them. 0: a commit after each group of bins, which has about
            512 MiB for each thread. None: one commit at the end.
        on_progress: called when a task has merged the files of a bin.

    Returns:
        Metrics: numAddedFiles, numRemovedFiles, numAddedBytes, numRemovedBytes, numDeletionVectorsRemoved,
        minFileSize, p25FileSize, p50FileSize, p75FileSize, maxFileSize (of the added files), executionTimeMs,
        filesAdded and filesRemoved (avg, max, min, totalFiles, totalSize), partitionsOptimized, numBatches,
        totalConsideredFiles, totalFilesSkipped. If no file has to be rewritten, nothing is committed.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed a file of every bin in
            each attempt. Earlier commits of this call remain.
        InvalidArgumentError: the target size or ``max_bytes`` is not positive, the predicate refers to a column that is
            not a partition column, or the interval is negative or is given together with application transactions.
    """
    started = time.monotonic()
    snapshot.check_writable()
    check_commit_interval(min_commit_interval, commit_properties, snapshot.store.root)
    size = target_file_size(snapshot.configuration, target_size, table=snapshot.store.root)
    check_max_bytes(max_bytes, snapshot.store.root)
    partitions = "[]" if predicate is None else [predicate.text]
    parameters = {"predicate": partitions, "zOrderBy": "[]", "auto": False, "targetSize": size}

    def attempt(snapshot: Snapshot) -> ChangeResult:
        plan = plan_compact(snapshot, size, predicate, max_bytes)
        return rewrite_bins(
            *(snapshot, engine, plan, "OPTIMIZE", parameters, started, commit_properties),
            min_commit_interval=min_commit_interval,
            writer_properties=writer_properties,
            on_progress=on_progress,
        )

    return run_with_replanning(snapshot, attempt)


def rewrite_bins(
    snapshot: Snapshot,
    engine: Engine,
    plan: CompactPlan,
    operation: str,
    parameters: Mapping[str, Any],
    started: float,
    commit_properties: CommitProperties | None,
    *,
    min_commit_interval: float | None = None,
    writer_properties: WriterProperties | None = None,
    on_progress: OnProgress | None = None,
) -> ChangeResult:
    """Write each bin of a plan into one file, and commit the bins of which no other writer has removed a file.

    If the plan has no bins, nothing is committed.

    Args:
        operation: commitInfo's operation; ``parameters``: its operationParameters.
        started: the verb's ``time.monotonic()``.
    """
    if not plan.bins:
        nothing = plan.files.slice(0, 0)
        metrics = rewrite_metrics(plan.considered, nothing, nothing, partitions=0, batches=0, started=started)
        return ChangeResult(snapshot.store.root, snapshot.version, None, metrics)
    target = rewrite_target(snapshot, writer_properties=writer_properties)
    groups = _finished_groups(plan, target, engine, min_commit_interval, on_progress)
    done: list[Rewrite] = []
    for versions, rewrite in commit_groups(
        snapshot, groups, min_commit_interval, operation, parameters, started, commit_properties
    ):
        committed = versions
        done.append(rewrite)
    metrics = rewrite_metrics(
        plan.considered,
        pa.concat_tables([part.removed for part in done]),
        pa.concat_tables([part.added for part in done]),
        partitions=plan.partitions,
        batches=len(plan.bins),
        started=started,
    )
    return ChangeResult(snapshot.store.root, *committed, metrics)


def _finished_groups(
    plan: CompactPlan, target: WriteTarget, engine: Engine, interval: float | None, on_progress: OnProgress | None
) -> Iterator[Rewrite]:
    """Write the bins, and yield the rewrite of each group."""
    chosen = plan.files.select([*COPIED_COLUMNS, *TAG_COLUMNS])
    sizes = numbers_of(plan.files["size"], np.int64)
    totals = np.array([int(sizes[rows].sum()) for rows in plan.bins])
    # The largest bins come first, so that the run does not wait for a large bin at the end.
    order = np.argsort(-totals, kind="stable")
    counter = None if on_progress is None else Counter("tasks", on_progress, totals[order])
    work = (totals + _OPEN_BYTES * np.array([len(rows) for rows in plan.bins]))[order]
    for group in group_parts(work, engine.parallelism, interval):
        numbers = order[group]
        tasks = [CompactTask(int(number), target, chosen.take(int64s(plan.bins[number]))) for number in numbers]
        on_task = None if counter is None else after(int(group[0]), counter.end)
        written = write_bins(engine, tasks, on_task, work[group].tolist())
        if counter is not None and group[-1] == len(order) - 1:
            counter.finish()
        yield _rewrite(plan, numbers, written)


def _rewrite(plan: CompactPlan, numbers: Rows, written: pa.Table) -> Rewrite:
    """The rewrite of the bins with these numbers."""
    bins = [plan.bins[number] for number in numbers]
    return Rewrite(
        plan.files.take(int64s(np.concatenate(bins))),
        np.repeat(numbers, [len(rows) for rows in bins]),
        written.drop_columns([BIN]),
        numbers_of(written[BIN], np.int64),
        positions_by_count,
    )


def write_bins(
    engine: Engine, tasks: Sequence[CompactTask], on_task: OnTask | None = None, sizes: Sequence[int] | None = None
) -> pa.Table:
    """Run compaction tasks, at least one; returns a files table with the column ``bin``.

    Args:
        sizes: the work of each task in bytes (``Engine.run``).

    Raises:
        DeltaError: the error of a task. The files of all tasks are deleted.
    """
    discard = partial(delete_files, store=tasks[0].target.store)
    return pa.concat_tables(results_of(engine.run(merge_files, tasks, on_task, sizes), discard))


def merge_files(task: CompactTask) -> pa.Table:
    """Run a compaction task. The result (RESULT_SCHEMA) holds a files table with the column ``bin``."""
    return result_of(lambda: _merge(task))


def _merge(task: CompactTask) -> pa.Table:
    """Write the rows of a task, with one row group in memory at a time."""
    target = task.target
    source = target.layout if task.source is None else task.source
    reader = copy_reader(replace(target, layout=source))
    values = dict(task.files["partitionValues"][0].as_py() or ())
    keys = zip(target.layout.partition_keys.values(), source.partition_keys.values(), strict=True)
    writer = DataFileWriter(target, {key: values.get(source_key) for key, source_key in keys})
    try:
        for rows in _all_rows(reader, task.files):
            writer.write(rows)
        files = files_table(writer.finish(), data_change=False)
        # The rows of a single file keep their order, so the copy is Z-ordered too. Tags contain physical names.
        if len(task.files) == 1 and task.source is None:
            files = copy_tags(task.files.select(list(TAG_COLUMNS)).to_pylist()[0], files)
    except BaseException:
        writer.abort()
        raise
    return files.append_column(BIN, int64s([task.number] * len(files)))


def _all_rows(reader: TableReader, files: pa.Table) -> Iterator[pa.Table]:
    for file, _ in reader.files(files):
        for group in range(file.num_row_groups):
            yield reader.row_group(file, group, {})


def _next_fit(partitions: Rows, sizes: Rows, target: int) -> Rows:
    """The number of the first file of each bin.

    A bin ends before the file that would exceed the target, and at the end of a partition.

    Args:
        partitions, sizes: of each file, sorted by partition and then by size.
    """
    count = len(sizes)
    total = np.cumsum(sizes)
    last = np.append(np.flatnonzero(np.diff(partitions)) + 1, count)
    partition_ends = last[np.searchsorted(last, np.arange(count), side="right")]
    full = np.maximum(np.searchsorted(total, total - sizes + target, side="right"), np.arange(1, count + 1))
    next_start = memoryview(np.minimum(full, partition_ends).astype(np.int64))  # faster to index than NumPy
    starts: list[int] = []
    start = 0
    while start < count:
        starts.append(start)
        start = next_start[start]
    return np.array(starts, np.int64)
