"""Which files a clustering rewrites: new ones, and small ones of earlier runs with no more bytes than those."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.engine.base import is_small
from lakehouse_lib.operations.files import has_many_deleted_rows
from lakehouse_lib.operations.optimize.clustering.tags import clustered_by
from lakehouse_lib.snapshot import Snapshot

Rows = NDArray[np.int64]


def physical_names(snapshot: Snapshot, columns: Iterable[str]) -> list[str]:
    """The names under which the files have these columns, which a rename does not change."""
    return [snapshot.layout.physical_name(snapshot.field(name)) for name in columns]


def is_clustered(snapshot: Snapshot, files: pa.Table, columns: Iterable[str], target_size: int) -> NDArray[np.bool_]:
    """Which files of a table an earlier run has clustered by these columns, so that another run would gain nothing.

    A file with more than 5% of its rows deleted does not count as clustered.

    Args:
        files: of the snapshot, a files table.
        columns: names of the schema, in any order.
        target_size: bytes of a file; see ``tags.clustered_by``.
    """
    clustered = clustered_by(files, physical_names(snapshot, columns), target_size)
    return clustered & ~has_many_deleted_rows(files)


def files_to_cluster(
    partitions: Rows, sizes: Rows, is_clustered: NDArray[np.bool_], is_worn: NDArray[np.bool_], target_size: int
) -> list[tuple[Rows, int]]:
    """The files that become a run of their own, partition by partition, and how many files to write for them.

    Files that are not clustered are taken. Small files of earlier runs join them, smallest first, each as long as it
    holds no more bytes than those taken so far: a partition that gets a few rows a day then has no small file a day,
    but some log2 of that many, and each row is rewritten about that often. A partition in which no file is new is left
    alone, and so is a file alone that fits the target, unless many of its rows are deleted.

    Args:
        partitions: a number a file, equal for files of one partition.
        sizes: bytes of each file.
        is_clustered: files that an earlier run has laid out as this one would.
        is_worn: files that ``files.has_many_deleted_rows`` names.
        target_size: bytes of a file to write.

    Returns:
        per partition the row numbers of its files, ascending, and ceil(bytes / target size).
    """
    changed = np.isin(partitions, partitions[~is_clustered])
    order = np.flatnonzero(changed)
    order = order[np.lexsort((sizes[order], is_clustered[order], partitions[order]))]
    chosen = []
    for rows in np.split(order, np.flatnonzero(np.diff(partitions[order])) + 1):
        taken = _with_tail(rows, sizes[rows], is_clustered[rows], target_size)
        total = int(sizes[taken].sum())
        if len(taken) > 1 or total > target_size or is_worn[taken].any():
            chosen.append((np.sort(taken), max(-(-total // target_size), 1)))
    return chosen


def _with_tail(rows: Rows, sizes: Rows, is_clustered: NDArray[np.bool_], target_size: int) -> Rows:
    """The first rows: new files, and of the clustered ones behind them, which ascend by size, those that join."""
    before = np.cumsum(sizes) - sizes
    stays = is_clustered & ~(is_small(sizes, target_size) & (sizes <= before))
    return rows[: int(np.argmax(stays))] if stays.any() else rows
