"""The choice of files to Z-order: all new files, and small files of earlier runs.

A small file is chosen if it has no more bytes than all files that were chosen before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.engine.base import is_small
from lakehouse_lib.operations.files import has_many_deleted_rows
from lakehouse_lib.operations.optimize.z_order.tags import z_ordered_by
from lakehouse_lib.snapshot import Snapshot

Rows = NDArray[np.int64]


def physical_names(snapshot: Snapshot, columns: Iterable[str]) -> list[str]:
    """The physical names of these columns, which do not change if a column is renamed."""
    return [snapshot.layout.physical_name(snapshot.field(name)) for name in columns]


def is_z_ordered(snapshot: Snapshot, files: pa.Table, columns: Iterable[str], target_size: int) -> NDArray[np.bool_]:
    """Which files an earlier run has Z-ordered by these columns; another run does not rewrite them.

    A file with more than 5% deleted rows does not count as Z-ordered.

    Args:
        files: files table of the snapshot.
        columns: names of the schema, in any order.
        target_size: bytes of a file; see ``tags.z_ordered_by``.
    """
    z_ordered = z_ordered_by(files, physical_names(snapshot, columns), target_size)
    return z_ordered & ~has_many_deleted_rows(files)


def files_to_z_order(
    partitions: Rows, sizes: Rows, is_z_ordered: NDArray[np.bool_], is_worn: NDArray[np.bool_], target_size: int
) -> list[tuple[Rows, int]]:
    """The files of the next run, and the number of files to write for them, for each partition.

    All files that are not Z-ordered are chosen. Small files of earlier runs join them, smallest first, as long as the
    next file has no more bytes than the files chosen so far. So a partition that gets a few rows every day does not
    have one small file for each of n days but about log2(n) files, and each row is rewritten about log2(n) times. A
    partition without a new file is left out. So is a single file that fits the target, unless many rows are deleted.

    Args:
        partitions: a number for each file, equal for files of a partition.
        sizes: bytes of each file.
        is_z_ordered: files that an earlier run has Z-ordered in the same way.
        is_worn: files for which ``files.has_many_deleted_rows`` is true.
        target_size: bytes of a file to write.

    Returns:
        For each partition the row numbers of its files, ascending, and ceil(bytes / target size).
    """
    changed = np.isin(partitions, partitions[~is_z_ordered])
    order = np.flatnonzero(changed)
    order = order[np.lexsort((sizes[order], is_z_ordered[order], partitions[order]))]
    chosen = []
    for rows in np.split(order, np.flatnonzero(np.diff(partitions[order])) + 1):
        taken = _with_tail(rows, sizes[rows], is_z_ordered[rows], target_size)
        total = int(sizes[taken].sum())
        if len(taken) > 1 or total > target_size or is_worn[taken].any():
            chosen.append((np.sort(taken), max(-(-total // target_size), 1)))
    return chosen


def _with_tail(rows: Rows, sizes: Rows, is_z_ordered: NDArray[np.bool_], target_size: int) -> Rows:
    """The new files and the Z-ordered files that join them.

    Args:
        rows: new files, then Z-ordered files by ascending size.
    """
    before = np.cumsum(sizes) - sizes
    stays = is_z_ordered & ~(is_small(sizes, target_size) & (sizes <= before))
    return rows[: int(np.argmax(stays))] if stays.any() else rows
