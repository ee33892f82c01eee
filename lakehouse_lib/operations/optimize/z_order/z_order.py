"""Z-order a table: rewrite its files so that a predicate on any of the chosen columns reads few files.

The plan builds a k-d tree for each partition from a sample of its keys. The run moves the rows into the leaves of the
trees by one exchange: ``scatter`` sends the rows of the old files, then ``gather`` writes the new files. One commit
replaces the files. The verb has delta-spark's name, but the layout is a k-d tree, which skips more files than a Z-order
curve.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib import statistics
from lakehouse_lib.arrow.values import int64s, literal, numbers_of
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.reader import TableReader, copy_reader
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.operations.files import discard, has_many_deleted_rows, live_records, partition_codes
from lakehouse_lib.operations.optimize.deletion_vector_rebase import Places
from lakehouse_lib.operations.optimize.limit import check_max_bytes, parts_within
from lakehouse_lib.operations.optimize.rewrite import Rewrite, commit_rewrite, rewrite_metrics, rewrite_target
from lakehouse_lib.operations.optimize.z_order.deleted_positions import PlacesOfKeys
from lakehouse_lib.operations.optimize.z_order.keys import has_order
from lakehouse_lib.operations.optimize.z_order.layout import Layout, split
from lakehouse_lib.operations.optimize.z_order.sample import FileRanges, take_sample
from lakehouse_lib.operations.optimize.z_order.selection import files_to_z_order, is_z_ordered, physical_names
from lakehouse_lib.operations.optimize.z_order.shuffle import (
    CHUNK_ROWS,
    NUMBER,
    FilePart,
    Load,
    OutputFile,
    ScatterTask,
    gather,
    scatter,
)
from lakehouse_lib.operations.optimize.z_order.tags import with_tags
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties

_LEAST_TASK_ROWS = 100_000
_TASKS_A_SLOT = 4  # small tasks, so that gather does not wait long for a slow task
_GUESSED_ROW_BYTES = 64.0


@dataclass(frozen=True)
class Plan:
    """The files that a Z-order will rewrite, and its tasks. Planning writes nothing.

    Attributes:
        considered: number of live files that the predicate selects.
        already_z_ordered: number of considered files that an earlier run has Z-ordered in the same way.
        files: the files to rewrite.
        partitions: number of their partitions.
        tasks: the tasks of ``scatter``.
        outputs: the files that ``gather`` writes.
    """

    considered: int
    already_z_ordered: int
    files: pa.Table
    partitions: int
    tasks: tuple[ScatterTask, ...]
    outputs: tuple[OutputFile, ...]


def z_order(
    snapshot: Snapshot,
    engine: Engine,
    columns: Iterable[str],
    *,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    full: bool = False,
    max_bytes: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Rewrite files so that rows with near values in ``columns`` are in the same file.

    Files stay if an earlier run has Z-ordered them by the same columns and about the same target size (see
    ``z_order.tags``), unless more than 5% of their rows are deleted by a deletion vector. The other files become a
    new run, together with small files of earlier runs (see ``z_order.selection``). If no file has to be Z-ordered,
    nothing is committed.

    A run writes ceil(bytes / target size) files with about equal numbers of rows in each partition. Equal values share
    a file, unless they are more than fit into one file. A partition is left out if its run would have only one file,
    this file fits the target, and at most 5% of its rows are deleted. If a concurrent commit removes a file, only the
    file's partition is left out. Rows that a concurrent commit hides by a deletion vector are hidden in the new files
    too.

    Args:
        columns: the columns that queries filter by, about four at most; their order does not matter.
        target_size: bytes of a file; None: ``delta.targetFileSize``, else 100 MiB.
        predicate: on partition columns only: the partitions to Z-order; None: all.
        full: rewrite Z-ordered files too, so that all files of a partition belong to one run.
        max_bytes: the most bytes to read; partitions with the smallest files first, and the others stay. None: no
            limit.

    Returns:
        The metrics of ``compact``, ``numFilesAlreadyClustered`` (of the considered files) and ``zOrderBy``.

    Raises:
        InvalidArgumentError: no column is given; a column is unknown, a partition column, or has no order or no
            statistics; the target size is below 1; the predicate refers to a column that is not a partition column.
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed a file of every
            partition; nothing is committed.
        LogCorruptedError: the files have another number of rows than the log says.
    """
    started = time.monotonic()
    snapshot.check_writable()
    key_columns = check_columns(snapshot, columns, predicate)
    size = target_file_size(snapshot.configuration, target_size, table=snapshot.store.root)
    check_max_bytes(max_bytes, snapshot.store.root)
    plan = plan_z_order(
        snapshot,
        key_columns,
        size,
        predicate,
        engine.parallelism,
        full=full,
        max_bytes=max_bytes,
        writer_properties=writer_properties,
    )
    if not plan.outputs:
        metrics = _metrics(plan, plan.files, plan.files, key_columns, started)
        return ChangeResult(snapshot.store.root, snapshot.version, None, metrics)
    written = engine.exchange(scatter, gather, plan.tasks, plan.outputs)
    added = with_tags(written.select(FILE_SCHEMA.names), physical_names(snapshot, key_columns), size)
    parameters = {
        "predicate": [] if predicate is None else [predicate.sql],
        "zOrderBy": list(key_columns),
        "auto": False,
        "targetSize": size,
    }
    try:
        _check_rows(snapshot, plan.files, added)
    except LogCorruptedError:
        discard(snapshot.store, added)
        raise
    places = PlacesOfKeys(
        engine, _keys_reader(snapshot, key_columns), plan.tasks, _by_number(written, len(plan.outputs))
    )
    rewrite = _by_partition(snapshot, plan.files, added, places)
    committed, committed_rewrite = commit_rewrite(snapshot, rewrite, "OPTIMIZE", parameters, started, commit_properties)
    metrics = _metrics(plan, committed_rewrite.removed, committed_rewrite.added, key_columns, started)
    return ChangeResult(snapshot.store.root, *committed, metrics)


def plan_z_order(
    snapshot: Snapshot,
    columns: Sequence[str],
    target_size: int,
    predicate: Predicate | None,
    parallelism: int,
    *,
    full: bool = False,
    max_bytes: int | None = None,
    writer_properties: WriterProperties | None = None,
) -> Plan:
    """Plan the trees, the tasks and the files to write. Reads only a sample of the key columns."""
    files = snapshot.prune(predicate)
    sizes = numbers_of(files["size"], np.int64)
    codes = partition_codes(files, snapshot.layout)
    z_ordered = is_z_ordered(snapshot, files, columns, target_size)
    z_ordered_count = int(z_ordered.sum())
    many_deleted = has_many_deleted_rows(files)
    selected_files = files_to_z_order(codes, sizes, z_ordered & (not full), many_deleted, target_size)
    if max_bytes is not None and selected_files:
        counts = np.array([len(rows) for rows, _ in selected_files])
        totals = np.array([sizes[rows].sum() for rows, _ in selected_files])
        selected_files = [selected_files[number] for number in parts_within(counts, totals, max_bytes)]
    if not selected_files:
        return Plan(len(files), z_ordered_count, files.slice(0, 0), 0, (), ())
    chosen = files.take(int64s(np.sort(np.concatenate([rows for rows, _ in selected_files]))))
    ranges = _file_ranges(files, sizes, snapshot, columns)
    keys_reader = _keys_reader(snapshot, columns)
    stored = zip(files["path"].to_pylist(), files["deletionVector"].to_pylist(), FileIds.of(files), strict=True)
    whole = [FilePart(*entry) for entry in stored]
    target = rewrite_target(snapshot, writer_properties=writer_properties)
    loads: list[tuple[Load, int]] = []
    outputs: list[OutputFile] = []
    for rows, count in selected_files:
        part = _ranges_of_rows(ranges, rows)
        blocks = max(round(float(part.rows.sum()) / count / CHUNK_ROWS), 1)
        sources = [whole[row] for row in rows]
        if count * blocks > 1:
            sample = take_sample(keys_reader, sources, part, count * blocks)
            layout = Layout(
                tuple(columns),
                sample.words,
                split(sample.keys, count, blocks=blocks, weights=sample.weights),
                len(outputs),
            )
        else:
            layout = Layout(
                tuple(columns), (None,) * len(columns), {"levels": [], "files": [1], "blocks": [1]}, len(outputs)
            )
        loads.extend(_loads(sources, part.rows, layout))
        values = dict(files["partitionValues"][int(rows[0])].as_py() or ())
        outputs.extend(
            OutputFile(layout.first_file + number, target, values, tuple(columns))
            for number in range(sum(layout.tree["files"]))
        )
    reader = copy_reader(target)
    return Plan(
        len(files), z_ordered_count, chosen, len(selected_files), _tasks(reader, loads, parallelism), tuple(outputs)
    )


def check_columns(snapshot: Snapshot, columns: Iterable[str], predicate: Predicate | None) -> tuple[str, ...]:
    """The names of the columns to Z-order by, in the schema's spelling.

    Raises:
        InvalidArgumentError: a column, or the predicate, is not valid; see ``z_order``.
    """

    def wrong(problem: str, hint: str) -> InvalidArgumentError:
        return InvalidArgumentError(problem, table=snapshot.store.root, version=snapshot.version, hint=hint)

    if predicate is not None and not predicate.partition_only(snapshot.partition_columns):
        raise wrong(
            f"the predicate is {predicate.sql}; expected a predicate on partition columns only",
            f"Filter by partition columns only: {', '.join(snapshot.partition_columns) or 'this table has none'}",
        )
    names = (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, Iterable) else ()
    if not names:
        raise wrong(f"columns is {columns!r}; expected at least one name", "Name the columns that queries filter by")
    # Use the schema's spelling, because readers and writers match names in any case.
    names = tuple(snapshot.field(name).name for name in names)
    if len(set(names)) < len(names):
        raise wrong(f"columns is {list(names)}; expected different names", "Name each column once")
    indexed = statistics.indexed_columns(snapshot.layout, snapshot.configuration)
    for name in names:
        field = snapshot.field(name)
        if name in snapshot.partition_columns:
            raise wrong(
                f"column {name!r} is a partition column", "Its values are in separate folders; name other columns"
            )
        if not has_order(field.type.to_arrow()):
            raise wrong(
                f"column {name!r} of type {field.type} has no order to Z-order by",
                "Name columns of numbers, strings, booleans, dates or timestamps",
            )
        if (name,) not in indexed:
            raise wrong(
                f"column {name!r} has no statistics, so readers could not skip files by it",
                "Add it to delta.dataSkippingStatsColumns or raise delta.dataSkippingNumIndexedCols",
            )
    return names


def _file_ranges(files: pa.Table, sizes: NDArray[np.int64], snapshot: Snapshot, columns: Sequence[str]) -> FileRanges:
    """The row counts and key ranges of files by their statistics; missing row counts are estimated."""
    bounds = statistics.bounds_of(files, {(name,): snapshot.schema.field(name).type for name in columns})
    records = live_records(files)
    counts = numbers_of(pc.fill_null(records, literal(-1, pa.int64())), np.int64).astype(np.float64)
    mean = sizes[counts > 0].sum() / counts[counts > 0].sum() if (counts > 0).any() else _GUESSED_ROW_BYTES
    rows = np.where(counts >= 0, counts, np.maximum(sizes / max(mean, 1e-3), 1))
    ranges = [bounds[(name,)] for name in columns]
    return FileRanges(rows, tuple(key_range.min for key_range in ranges), tuple(key_range.max for key_range in ranges))


def _ranges_of_rows(ranges: FileRanges, rows: NDArray[np.int64]) -> FileRanges:
    at = int64s(rows)
    return FileRanges(
        ranges.rows[rows],
        tuple(bounds.take(at) for bounds in ranges.lows),
        tuple(bounds.take(at) for bounds in ranges.highs),
    )


def _loads(files: Sequence[FilePart], rows: NDArray[np.float64], layout: Layout) -> Iterator[tuple[Load, int]]:
    """Loads of one file or a part of a file each, with their row counts."""
    for file, count in zip(files, rows.tolist(), strict=True):
        parts = max(round(count / CHUNK_ROWS), 1)
        for part in range(parts):
            yield Load((file._replace(part=part, parts=parts),), layout), int(count / parts)


def _tasks(reader: TableReader, loads: Sequence[tuple[Load, int]], parallelism: int) -> tuple[ScatterTask, ...]:
    """The loads, grouped in tasks of at most about a million rows and in enough tasks for all slots."""
    total = sum(rows for _, rows in loads)
    most = min(max(total // (parallelism * _TASKS_A_SLOT), _LEAST_TASK_ROWS), CHUNK_ROWS)
    tasks: list[ScatterTask] = []
    pending: list[Load] = []
    count = 0
    for load, rows in loads:
        if pending and count + rows > most:
            tasks.append(ScatterTask(reader, tuple(pending)))
            pending, count = [], 0
        if pending and pending[-1].layout is load.layout:
            pending[-1] = Load(pending[-1].sources + load.sources, load.layout)
        else:
            pending.append(load)
        count += rows
    return (*tasks, ScatterTask(reader, tuple(pending)))


def _check_rows(snapshot: Snapshot, removed: pa.Table, added: pa.Table) -> None:
    """Refuse written files whose number of rows differs from the removed files' number in the log.

    Raises:
        LogCorruptedError: the numbers differ, so rows would be lost or duplicated.
    """
    before, after = live_records(removed), live_records(added)
    if before.null_count or after.null_count:
        return
    expected, got = pc.sum(before).as_py() or 0, pc.sum(after, min_count=0).as_py()
    if expected != got:
        raise LogCorruptedError(
            f"the files have {got} rows; expected {expected} rows by numRecords",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing was committed. Find the add action whose numRecords differs from its file's footer",
        )


def _by_number(written: pa.Table, files: int) -> list[str | None]:
    """The paths of files by their numbers; None for a file without rows, which is not written."""
    paths: list[str | None] = [None] * files
    if len(written):
        for number, path in zip(written[NUMBER].to_pylist(), written["path"].to_pylist(), strict=True):
            paths[number] = path
    return paths


def _keys_reader(snapshot: Snapshot, columns: Sequence[str]) -> TableReader:
    return TableReader(snapshot.store, snapshot.layout, snapshot.layout.columns(columns))


def _by_partition(snapshot: Snapshot, removed: pa.Table, added: pa.Table, places: Places) -> Rewrite:
    """The rewrite with one group for each partition, because rows do not leave their partition."""
    values = pa.concat_tables([removed.select(["partitionValues"]), added.select(["partitionValues"])])
    codes = partition_codes(values, snapshot.layout)
    return Rewrite(removed, codes[: len(removed)], added, codes[len(removed) :], places)


def _metrics(
    plan: Plan, removed: pa.Table, added: pa.Table, key_columns: Sequence[str], started: float
) -> dict[str, Any]:
    batches = len(plan.tasks)
    metrics = rewrite_metrics(
        plan.considered, removed, added, partitions=plan.partitions, batches=batches, started=started
    )
    return {**metrics, "numFilesAlreadyClustered": plan.already_z_ordered, "zOrderBy": list(key_columns)}
