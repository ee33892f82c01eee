"""The choice of files to Z-order, from the log: new files, and the files of earlier runs that they join.

A partition with new files is handled in one of these ways:

- **New run**: the new files become a separate run. A small file of an earlier run joins them if it has no more bytes
  than all files that were chosen before it. If a partition gets a few rows every day, it has about log2(n) small files
  after n days, and not n. Each row is rewritten about log2(n) times.
- **Merge into cells**: if the partition would have four runs, the rows of the other runs join the cells of the largest
  one. A cell is rewritten only if it gets 5% new rows. The rows of the other cells become a new run.
- **Larger run**: if most new rows are in cells that get less than 5%, or if the new rows are less than 5% of the
  largest run, whole runs join the new run instead. The smallest run comes first, as long as the next run has at most
  twice the bytes of all files that were chosen before it.
- **All files**: if the largest run has no cells, or would have twice as many files as cells, or with ``full``.

The new rows of a cell are estimated: a file's rows are divided equally among the cells whose key ranges it overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib import statistics
from lakehouse_lib.arrow.values import flags_of, int64s, literal, numbers_of
from lakehouse_lib.engine.base import is_small
from lakehouse_lib.features.file_layout.clustering import PROVIDER
from lakehouse_lib.operations.files import has_many_deleted_rows, partition_codes
from lakehouse_lib.operations.optimize.z_order.tags import Places, places_of, z_ordered_by
from lakehouse_lib.snapshot import Snapshot

Rows = NDArray[np.int64]

#: The runs of a partition are merged if this many of them, including the new files, have a file that is not small.
_MOST_RUNS = 4
#: A cell is rewritten if its new rows have at least this share of its bytes. The runs of a partition are merged if the
#: rows to move have at least this share of the bytes of the largest run.
_NEW_SHARE = 0.05
#: Rows are merged into cells if at least this share of the bytes to move belongs to cells that are rewritten.
_LEAST_MERGED = 0.5
#: A whole run joins a new run if it has at most this many times the bytes of the new run.
_JOINING = 2
#: A cell is divided into files of at most this many target sizes.
_LARGEST_FILE = 4 / 3
#: A run gets a new tree if it has this many files for each cell.
_FILES_A_CELL = 2
_COMPARED = 1 << 24  # pairs of a file and a cell whose ranges are compared at a time

_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Part:
    """The files of one partition that the next run rewrites.

    Attributes:
        rows: row numbers of the files, ascending.
        files: the number of files to write, estimated if the files join cells.
        run: the run whose cells the files join; None: the files become a new run.
        tree: the number of the run's tree.
        cells: the cells that are rewritten, ascending.
        cell_rows: the row numbers of the files that are in these cells, a part of ``rows``.
    """

    rows: Rows
    files: int
    run: str | None = None
    tree: int = -1
    cells: Rows = field(default_factory=_NOTHING.copy)
    cell_rows: Rows = field(default_factory=_NOTHING.copy)


@dataclass(frozen=True)
class Selection:
    """The files that the next run rewrites.

    Attributes:
        z_ordered: the number of files that an earlier run has Z-ordered in the same way.
        parts: the partitions with files to rewrite.
        partitions: a number for each file of the table, equal for files of a partition; -1: a file that another engine
            has clustered, which stays.
    """

    z_ordered: int
    parts: tuple[Part, ...]
    partitions: Rows


def physical_names(snapshot: Snapshot, columns: Iterable[str]) -> list[str]:
    """The physical names of these columns, which do not change if a column is renamed."""
    return [snapshot.layout.physical_name(snapshot.field(name)) for name in columns]


def key_bounds(snapshot: Snapshot, files: pa.Table, columns: Iterable[str]) -> list[statistics.Bounds]:
    """The bounds of each column in these files, by their statistics."""
    fields = [snapshot.field(name) for name in columns]
    paths = [(snapshot.layout.physical_name(column),) for column in fields]
    bounds = statistics.bounds_of(files, {path: column.type for path, column in zip(paths, fields, strict=True)})
    return [bounds[path] for path in paths]


def files_of(size: float, target_size: int) -> int:
    """The number of files of a cell with this number of bytes."""
    return max(int(np.ceil(size / (target_size * _LARGEST_FILE))), 1)


def files_to_z_order(
    snapshot: Snapshot,
    files: pa.Table,
    columns: Iterable[str],
    target_size: int,
    *,
    layout: str | None = None,
    full: bool = False,
) -> Selection:
    """The files that the next run rewrites. Reads no data.

    All files that are not Z-ordered are chosen. In a clustered table, files that another engine has clustered stay as
    they are, unless ``full`` (PROTOCOL.md, Writer Requirements for Clustered Table). A file with more than 5% deleted
    rows does not count as Z-ordered. A partition without a new file is left out. A single file that fits the target is
    left out, too, unless more than 5% of its rows are deleted.

    Args:
        files: files table of the snapshot.
        columns: names of columns, in any order.
        target_size: bytes of a file, and ``layout``: see ``tags.z_ordered_by``.
        full: choose Z-ordered files too, and files that another engine has clustered.
    """
    columns = list(columns)
    sizes = numbers_of(files["size"], np.int64)
    partitions = partition_codes(files, snapshot.layout)
    many_deleted = has_many_deleted_rows(files)
    is_z_ordered = z_ordered_by(files, physical_names(snapshot, columns), target_size, layout) & ~many_deleted
    stays = is_z_ordered & (not full)
    is_of_other_engine = _of_another_engine(snapshot, files) & (not full)
    partitions = np.where(is_of_other_engine, -1, partitions)
    # Skip partitions whose only file fits the target: the loop below is slow if each file is in its own partition.
    is_alone = np.bincount(partitions + 1)[partitions + 1] == 1
    is_unchanged = is_alone & (sizes <= target_size) & ~many_deleted
    order = np.flatnonzero(np.isin(partitions, partitions[~stays & ~is_unchanged & ~is_of_other_engine]))
    order = order[np.lexsort((sizes[order], stays[order], partitions[order]))]
    places = places_of(files) if stays[order].any() else None
    parts = []
    for rows in np.split(order, np.flatnonzero(np.diff(partitions[order])) + 1):
        count = _with_tail(sizes[rows], stays[rows], target_size)
        new_files, other_files = rows[:count], rows[count:]
        part = (
            None
            if places is None
            else _merge(snapshot, files, columns, sizes, places, new_files, other_files, target_size)
        )
        if part is None and (count > 1 or sizes[new_files].sum() > target_size or many_deleted[new_files].any()):
            part = new_run(new_files, sizes, target_size)
        if part is not None:
            parts.append(part)
    return Selection(int(is_z_ordered.sum()), tuple(parts), partitions)


def new_run(rows: Rows, sizes: Rows, target_size: int) -> Part:
    """The part that rewrites these files as one new run of ceil(bytes / target size) files."""
    return Part(np.sort(rows), max(-(-int(sizes[rows].sum()) // target_size), 1))


def _of_another_engine(snapshot: Snapshot, files: pa.Table) -> NDArray[np.bool_]:
    """Which files of a clustered table another engine has clustered."""
    if not snapshot.clustering_columns:
        return np.zeros(len(files), np.bool_)
    return flags_of(pc.not_equal(files["clusteringProvider"], literal(PROVIDER, pa.string())))


def _with_tail(sizes: Rows, is_z_ordered: NDArray[np.bool_], target_size: int) -> int:
    """The number of files of a new run: the new files, and the Z-ordered files that join them.

    Args:
        sizes: of new files, then of Z-ordered files by ascending size.
    """
    before = np.cumsum(sizes) - sizes
    stays = is_z_ordered & ~(is_small(sizes, target_size) & (sizes <= before))
    return int(np.argmax(stays)) if stays.any() else len(sizes)


def _merge(
    snapshot: Snapshot,
    files: pa.Table,
    columns: list[str],
    sizes: Rows,
    places: Places,
    new_files: Rows,
    other_files: Rows,
    target_size: int,
) -> Part | None:
    """The merge of a partition's runs; None: the runs are too few, or no run is small enough to join the new files.

    Args:
        new_files: the row numbers of the new files and of the small files that join them.
        other_files: the row numbers of the other files of the partition.
    """
    run_of = places.runs[other_files]
    large = np.unique(run_of[~is_small(sizes[other_files], target_size)])
    if len(large) + (sizes[new_files].sum() * 2 >= target_size) < _MOST_RUNS:
        return None
    runs, inverse = np.unique(run_of, return_inverse=True)
    bytes_of = np.bincount(inverse, sizes[other_files]).astype(np.int64)
    largest = int(np.argmax(bytes_of))
    moved_bytes = int(sizes[new_files].sum() + bytes_of.sum() - bytes_of[largest])
    all_files = np.concatenate([new_files, other_files])
    joining = _join_runs(int(sizes[new_files].sum()), bytes_of)
    run_files = np.concatenate([new_files, other_files[np.isin(inverse, joining)]])
    larger_run = new_run(run_files, sizes, target_size) if len(joining) else None
    if moved_bytes < _NEW_SHARE * bytes_of[largest]:
        return larger_run
    in_cells = (inverse == largest) & (places.cells[other_files] >= 0)
    if runs[largest] < 0 or not in_cells.any():
        return new_run(all_files, sizes, target_size)
    tree = int(places.trees[other_files[in_cells]].max())
    in_cells &= places.trees[other_files] == tree
    cell_files = other_files[in_cells]
    moved = np.concatenate([new_files, other_files[~in_cells]])

    cells, cell_of = np.unique(places.cells[cell_files], return_inverse=True)
    cell_bytes = np.bincount(cell_of, sizes[cell_files])
    new_bytes = _bytes_for_cells(snapshot, files, columns, sizes, cell_files, cell_of, moved)
    is_rewritten = new_bytes >= _NEW_SHARE * cell_bytes
    file_counts = np.where(
        is_rewritten,
        [files_of(size, target_size) for size in (cell_bytes + new_bytes).tolist()],
        np.bincount(cell_of),
    )
    if file_counts.sum() >= _FILES_A_CELL * len(cells):
        return new_run(all_files, sizes, target_size)
    merged = new_bytes[is_rewritten].sum()
    total = sizes[moved].sum()
    if merged < _LEAST_MERGED * total:
        return larger_run
    rewritten = np.sort(cell_files[is_rewritten[cell_of]])
    others = int(np.ceil((total - merged) / target_size - 1e-6))
    count = int(file_counts[is_rewritten].sum()) + others
    run = places.names[int(runs[largest])].as_py()
    return Part(np.sort(np.concatenate([moved, rewritten])), count, run, tree, cells[is_rewritten], rewritten)


def _join_runs(new_bytes: int, bytes_of: Rows) -> Rows:
    """The runs that join a new run, smallest first: each has at most twice the bytes of the files before it."""
    order = np.argsort(bytes_of, kind="stable")
    ascending = bytes_of[order]
    stays = ascending > _JOINING * (new_bytes + np.cumsum(ascending) - ascending)
    return order[: int(np.argmax(stays))] if stays.any() else order


def _bytes_for_cells(
    snapshot: Snapshot,
    files: pa.Table,
    columns: list[str],
    sizes: Rows,
    cell_files: Rows,
    cell_of: Rows,
    moved: Rows,
) -> NDArray[np.float64]:
    """The bytes of the files to move that each cell gets, estimated from key ranges.

    Args:
        cell_files: the row numbers of the cells' files, and ``cell_of``: the cell of each.
        moved: the row numbers of the files to move.
    """
    chosen = files.select(["stats"]).take(int64s(np.concatenate([cell_files, moved])))
    count = int(cell_of.max()) + 1
    boxes = []
    for bounds in key_bounds(snapshot, chosen, columns):
        low, high = _ranks(bounds)
        cell_low, cell_high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
        np.minimum.at(cell_low, cell_of, low[: len(cell_files)])
        np.maximum.at(cell_high, cell_of, high[: len(cell_files)])
        boxes.append((cell_low, cell_high, low[len(cell_files) :], high[len(cell_files) :]))
    result = np.zeros(count)
    # Compare files with near keys at the same time, so that they are compared with few cells.
    order = np.argsort(boxes[0][2], kind="stable")
    step = max(_COMPARED // count, 1)
    for files_now in (order[start : start + step] for start in range(0, len(order), step)):
        near = np.ones(count, np.bool_)
        for cell_low, cell_high, low, high in boxes:
            near &= (cell_high >= low[files_now].min()) & (cell_low <= high[files_now].max())
        cells = np.flatnonzero(near)
        overlaps = np.ones((len(files_now), len(cells)), np.bool_)
        for cell_low, cell_high, low, high in boxes:
            overlaps &= (low[files_now, None] <= cell_high[cells]) & (high[files_now, None] >= cell_low[cells])
        file, cell = np.nonzero(overlaps)
        shares = sizes[moved[files_now]] / np.maximum(overlaps.sum(axis=1), 1)
        result[cells] += np.bincount(cell, shares[file], minlength=len(cells))
    return result


def _ranks(bounds: statistics.Bounds) -> tuple[Rows, Rows]:
    """The bounds as numbers in the same order; unknown bounds are the lowest and the highest number."""
    ends = pa.concat_arrays([bounds.min, bounds.max])
    count = len(bounds.min)
    is_known = flags_of(ends.is_valid())
    ranks = np.zeros(2 * count, np.int64)
    if is_known.any():  # a column of booleans has no bounds, and Arrow does not rank them
        ranks = numbers_of(pc.rank(ends, tiebreaker="min"), np.uint64).astype(np.int64)
    low = np.where(is_known[:count], ranks[:count], 0)
    high = np.where(is_known[count:], ranks[count:], np.int64(2 * count + 1))
    return low, high
