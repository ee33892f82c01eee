"""The plan of a Z-order: the trees, the tasks and the files to write. It reads only a sample of the key columns."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import int64s, literal, numbers_of
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.reader import TableReader, copy_reader
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.operations.optimize.commit_groups import group_parts
from lakehouse_lib.operations.optimize.limit import limited_parts
from lakehouse_lib.operations.optimize.rewrite import rewrite_target
from lakehouse_lib.operations.optimize.z_order import saved_trees
from lakehouse_lib.operations.optimize.z_order.curve import Curve
from lakehouse_lib.operations.optimize.z_order.layout import Layout, Tree, divide, file_cells, leaf_of, split, tree_keys
from lakehouse_lib.operations.optimize.z_order.sample import FileRanges, Sample, take_sample
from lakehouse_lib.operations.optimize.z_order.saved_trees import SavedTree
from lakehouse_lib.operations.optimize.z_order.selection import (
    Part,
    Selection,
    files_of,
    files_to_z_order,
    key_bounds,
    new_run,
    physical_names,
)
from lakehouse_lib.operations.optimize.z_order.shuffle import CHUNK_ROWS, FilePart, Load, OutputFile, ScatterTask
from lakehouse_lib.operations.optimize.z_order.tags import Place, layout_of
from lakehouse_lib.snapshot import Snapshot

#: The usual number of tasks for a slot: up to four tasks of 48 MiB, because a task takes time to start on Spark, and
#: gather waits for the slowest task. A slot gets more tasks if they would have more than 128 MiB.
_ROUNDS, _TASK_BYTES, _MOST_TASK_BYTES = 4, 48 << 20, 128 << 20
_LEAST_TASK_BYTES = 2 << 20  # so that a small table does not use all slots of a large cluster
_ROW_BYTES = 8  # a row counts as this number of bytes at least, because some files are very small for their rows
_GUESSED_ROW_BYTES = 64.0
_NO_TREE: Tree = {
    "levels": [],
    "cell_levels": 0,
    "files": [1],
    "blocks": [1],
    "first_files": [0],
    "first_blocks": [0],
    "cells": [0],
}


@dataclass(frozen=True)
class PlannedRun:
    """A new run: the partitions that one exchange rewrites.

    Attributes:
        name: a UUID.
        files: the files to rewrite, and ``parts``: the number of each file's partition.
        tasks: the tasks of ``scatter``.
        outputs: the files that ``gather`` writes.
        places: the place of each of these files in a run, and ``output_parts``: the number of its partition.
        trees: the trees of the run, by the number of their partition.
    """

    name: str
    files: pa.Table
    parts: NDArray[np.int64]
    tasks: tuple[ScatterTask, ...]
    outputs: tuple[OutputFile, ...]
    places: tuple[Place, ...]
    output_parts: NDArray[np.int64]
    trees: Mapping[int, SavedTree]


@dataclass(frozen=True)
class Plan:
    """The files that a Z-order will rewrite, and its tasks. Planning writes nothing.

    Attributes:
        considered: number of live files that the predicate selects.
        already_z_ordered: number of considered files that earlier runs have Z-ordered by the same columns, layout and
            about the same target size.
        files: the considered files.
        partitions: number of partitions to rewrite.
        runs: the runs, each of which can be committed by itself.
    """

    considered: int
    already_z_ordered: int
    files: pa.Table
    partitions: int = 0
    runs: tuple[PlannedRun, ...] = ()


@dataclass(frozen=True)
class _PlannedPart:
    """The layout of a partition, the place of each of its files, and the tree to save (None: no tree)."""

    layout: Layout
    places: list[Place]
    tree: SavedTree | None = None


def plan_z_order(
    snapshot: Snapshot,
    columns: Sequence[str],
    target_size: int,
    predicate: Predicate | None,
    parallelism: int,
    *,
    layout: str | None = None,
    full: bool = False,
    max_bytes: int | None = None,
    interval: float | None = None,
    writer_properties: WriterProperties | None = None,
) -> Plan:
    """Plan the trees, the tasks and the files to write. Reads only a sample of the key columns, and saved trees.

    Args:
        layout: the layout of new runs, a key of ``tags.LAYOUTS``; None: the layout of the Z-ordered files, else "kd".
        interval: seconds between commits; None: all partitions are one run (``commit_groups.group_parts``).
    """
    files = snapshot.prune(predicate)
    sizes = numbers_of(files["size"], np.int64)
    layout = layout if len(columns) > 1 else "kd"  # with a single column, all layouts are the same
    selection = files_to_z_order(snapshot, files, columns, target_size, layout=layout, full=full)
    layout = layout or layout_of(files) or "kd"
    parts, trees = _with_trees(snapshot, columns, selection, sizes, target_size)
    if max_bytes is not None and parts:
        parts = [parts[number] for number in limited_parts(files, [part.rows for part in parts], max_bytes)]
    if not parts:
        return Plan(len(files), selection.z_ordered, files)
    stored = zip(files["path"].to_pylist(), files["deletionVector"].to_pylist(), FileIds.of(files), strict=True)
    sources = _Sources.of(snapshot, [FilePart(*entry) for entry in stored], files, sizes, tuple(columns))
    target = rewrite_target(snapshot, writer_properties=writer_properties)
    work = np.array([sizes[part.rows].sum() for part in parts])
    runs = []
    for group in group_parts(work, parallelism, interval):
        chosen = {number: parts[number] for number in group.tolist()}
        runs.append(_plan_run(sources, files, chosen, trees, layout, target, target_size, parallelism))
    return Plan(len(files), selection.z_ordered, files, len(parts), tuple(runs))


def _plan_run(
    sources: _Sources,
    files: pa.Table,
    parts: Mapping[int, Part],
    trees: Mapping[tuple[str | None, int], SavedTree],
    layout: str,
    target: WriteTarget,
    target_size: int,
    parallelism: int,
) -> PlannedRun:
    """The tasks and the files of partitions that are rewritten together.

    Args:
        parts: by their number among all partitions to rewrite.
        trees: the saved trees of earlier runs.
        layout: the layout of new runs, a key of ``tags.LAYOUTS``.
    """
    run = str(uuid.uuid4())
    loads: list[tuple[Load, float]] = []
    outputs: list[OutputFile] = []
    places: list[Place] = []
    output_parts: list[int] = []
    saved: dict[int, SavedTree] = {}
    for number, part in parts.items():
        if part.run is None:
            planned = _plan_new_run(sources, part, run, layout, len(saved), len(outputs))
        else:
            planned = _plan_merge(sources, part, trees[part.run, part.tree], run, target_size, len(outputs))
        if planned.tree is not None:
            saved[number] = planned.tree
        loads.extend(_loads(sources, part, planned.layout))
        values = dict(files["partitionValues"][int(part.rows[0])].as_py() or ())
        outputs.extend(
            OutputFile(planned.layout.first_file + index, target, values, sources.columns)
            for index in range(planned.layout.file_count)
        )
        places.extend(planned.places)
        output_parts.extend([number] * planned.layout.file_count)
    rows = np.concatenate([part.rows for part in parts.values()])
    numbers = np.repeat(list(parts), [len(part.rows) for part in parts.values()])
    order = np.argsort(rows)
    return PlannedRun(
        run,
        files.take(int64s(rows[order])),
        numbers[order],
        _tasks(copy_reader(target), loads, parallelism),
        tuple(outputs),
        tuple(places),
        np.array(output_parts, np.int64),
        saved,
    )


def keys_reader(snapshot: Snapshot, columns: Sequence[str]) -> TableReader:
    """The reader of the key columns, in the order of the names."""
    return TableReader(snapshot.store, snapshot.layout, snapshot.layout.columns(columns))


@dataclass(frozen=True)
class _Sources:
    """The files of a version, from which the rows come.

    Attributes:
        files: whole files.
        sizes: bytes of each file.
        columns: the key columns, and ``physical``: their physical names.
        ranges: the row counts of the files and the key ranges of these columns.
    """

    snapshot: Snapshot
    files: Sequence[FilePart]
    sizes: NDArray[np.int64]
    columns: tuple[str, ...]
    physical: tuple[str, ...]
    ranges: FileRanges

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        parts: Sequence[FilePart],
        files: pa.Table,
        sizes: NDArray[np.int64],
        columns: tuple[str, ...],
    ) -> _Sources:
        physical = tuple(physical_names(snapshot, columns))
        return cls(snapshot, parts, sizes, columns, physical, _file_ranges(files, sizes, snapshot, columns))

    def rows_of(self, part: Part) -> float:
        """The number of rows of a part."""
        return float(self.ranges.rows[part.rows].sum())

    def blocks(self, part: Part) -> int:
        """The number of blocks of each file of a part."""
        return max(round(self.rows_of(part) / part.files / CHUNK_ROWS), 1)

    def sample(self, part: Part, leaves: int, tree: SavedTree | None = None) -> Sample:
        """A sample of a part's keys; with a tree, in the order of its columns and with its vocabularies."""
        order = range(len(self.columns)) if tree is None else [self.physical.index(name) for name in tree.columns]
        at = int64s(part.rows)
        ranges = FileRanges(
            self.ranges.rows[part.rows],
            tuple(self.ranges.lows[number].take(at) for number in order),
            tuple(self.ranges.highs[number].take(at) for number in order),
        )
        reader = keys_reader(self.snapshot, [self.columns[number] for number in order])
        files = [self.files[row] for row in part.rows]
        return take_sample(reader, files, ranges, leaves, None if tree is None else tree.words)


def _with_trees(
    snapshot: Snapshot,
    columns: Sequence[str],
    selection: Selection,
    sizes: NDArray[np.int64],
    target_size: int,
) -> tuple[list[Part], dict[tuple[str | None, int], SavedTree]]:
    """The parts and their saved trees. A part whose tree cannot be used becomes a new run of the whole partition."""
    names = physical_names(snapshot, columns)
    types = [snapshot.field(name).type.to_arrow() for name in columns]
    loaded: dict[str, list[SavedTree | None]] = {}
    trees: dict[tuple[str | None, int], SavedTree] = {}
    parts = []
    for part in selection.parts:
        if part.run is not None:
            if part.run not in loaded:
                loaded[part.run] = saved_trees.load(snapshot.store, part.run, names, types)
            of_run = loaded[part.run]
            tree = of_run[part.tree] if part.tree < len(of_run) else None
            if tree is None or part.cells.max() >= tree.cells:
                rows = np.flatnonzero(selection.partitions == selection.partitions[part.rows[0]])
                part = new_run(rows, sizes, target_size)
            else:
                trees[part.run, part.tree] = tree
        parts.append(part)
    return parts, trees


def _plan_new_run(sources: _Sources, part: Part, run: str, kind: str, number: int, first_file: int) -> _PlannedPart:
    """The files of a new run.

    Args:
        kind: the layout, a key of ``tags.LAYOUTS``.
        number: the number of the tree in the run.
        first_file: index of the first file among all files of the operation.
    """
    leaves = part.files * sources.blocks(part)
    if leaves == 1:
        layout = Layout(sources.columns, (None,) * len(sources.columns), _NO_TREE, first_file)
        return _PlannedPart(layout, [Place(run, None, kind)])
    sample = sources.sample(part, leaves)
    curve = None
    if kind != "kd":
        curve = Curve.of("hilbert" if kind == "hilbert" else "zorder", sample.keys, sample.weights)
    keys = tree_keys(curve, sample.keys)
    tree = split(keys, part.files, blocks=sources.blocks(part), weights=sample.weights)
    layout = Layout(sources.columns, sample.words, tree, first_file, curve)
    levels = tree["levels"][: tree["cell_levels"]]
    if not levels:
        return _PlannedPart(layout, [Place(run, None, kind)] * layout.file_count)
    places = [Place(run, f"{number}.{cell}", kind) for cell in file_cells(tree)]
    return _PlannedPart(layout, places, SavedTree(sources.physical, sample.words, levels, curve))


def _plan_merge(
    sources: _Sources, part: Part, tree: SavedTree, run: str, target_size: int, first_file: int
) -> _PlannedPart:
    """The files of cells with new rows, and the files of a new run for the rows of the other cells."""
    blocks = sources.blocks(part)
    sample = sources.sample(part, part.files * blocks, tree)
    keys = tree_keys(tree.curve, sample.keys)
    weights = np.bincount(leaf_of(tree.levels, keys), sample.weights, minlength=tree.cells)
    cell_bytes = weights * (sources.sizes[part.rows].sum() / max(sources.rows_of(part), 1.0))
    is_rewritten = np.isin(np.arange(tree.cells), part.cells)
    has_files = is_rewritten | (cell_bytes > target_size)
    counts = [files_of(size, target_size) if own else 0 for size, own in zip(cell_bytes, has_files, strict=True)]
    shared = 0 if has_files.all() else max(int(np.ceil(cell_bytes[~has_files].sum() / target_size)), 1)
    divided = divide(tree.levels, keys, counts, shared=shared, blocks=blocks, weights=sample.weights)
    names = tuple(sources.columns[sources.physical.index(name)] for name in tree.columns)
    layout = Layout(names, tree.words, divided, first_file, tree.curve)
    kind = "kd" if tree.curve is None else tree.curve.kind
    places = [
        Place(part.run or run, f"{part.tree}.{cell}", kind) if is_rewritten[cell] else Place(run, None, kind)
        for cell in file_cells(divided)
    ]
    return _PlannedPart(layout, places)


def _file_ranges(files: pa.Table, sizes: NDArray[np.int64], snapshot: Snapshot, columns: Sequence[str]) -> FileRanges:
    """The row counts and key ranges of files by their statistics; missing row counts are estimated."""
    records = live_records(files)
    counts = numbers_of(pc.fill_null(records, literal(-1, pa.int64())), np.int64).astype(np.float64)
    mean = sizes[counts > 0].sum() / counts[counts > 0].sum() if (counts > 0).any() else _GUESSED_ROW_BYTES
    rows = np.where(counts >= 0, counts, np.maximum(sizes / max(mean, 1e-3), 1))
    ranges = key_bounds(snapshot, files, columns)
    return FileRanges(rows, tuple(key_range.min for key_range in ranges), tuple(key_range.max for key_range in ranges))


def _loads(sources: _Sources, part: Part, layout: Layout) -> Iterator[tuple[Load, float]]:
    """A load for each file of a part, or for each million rows of a large file, with its bytes."""
    for row in part.rows:
        rows = float(sources.ranges.rows[row])
        parts = max(round(rows / CHUNK_ROWS), 1)
        for number in range(parts):
            file = sources.files[row]._replace(part=number, parts=parts)
            yield Load((file,), layout), max(float(sources.sizes[row]), rows * _ROW_BYTES) / parts


def _tasks(reader: TableReader, loads: Sequence[tuple[Load, float]], parallelism: int) -> tuple[ScatterTask, ...]:
    """The loads in their order, in tasks of about equal bytes.

    Args:
        loads: with the bytes of each load.
    """
    sizes = np.array([size for _, size in loads])
    total = float(sizes.sum())
    rounds = min(max(round(total / (parallelism * _TASK_BYTES)), 1), _ROUNDS)
    rounds = max(rounds, int(np.ceil(total / (parallelism * _MOST_TASK_BYTES))))
    count = min(rounds * parallelism, int(total // _LEAST_TASK_BYTES) + 1)
    # A load belongs to the task in whose bytes its middle is. The middle of an empty load may be the end of the bytes.
    middles = np.cumsum(sizes) - sizes / 2
    numbers = np.minimum(middles * count // max(total, 1.0), count - 1).astype(np.int64)
    tasks: list[list[Load]] = [[] for _ in range(count)]
    for (load, _), number in zip(loads, numbers.tolist(), strict=True):
        task = tasks[number]
        if task and task[-1].layout is load.layout:
            task[-1] = Load(task[-1].sources + load.sources, load.layout)
        else:
            task.append(load)
    return tuple(ScatterTask(reader, tuple(task)) for task in tasks if task)
