"""The runs of z_order that are not merged yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.operations.optimize.z_order.selection import physical_names
from lakehouse_lib.operations.optimize.z_order.tags import places_of, z_ordered_by
from lakehouse_lib.snapshot import Snapshot


def unmerged_runs(
    snapshot: Snapshot, files: pa.Table, partitions: NDArray[np.int64], columns: Sequence[str], target_size: int
) -> int:
    """The number of runs in each partition, except the first run, summed over the partitions.

    Files of different runs overlap.

    Args:
        files: a files table of the version with at least ``tags``.
        partitions: a number for each file, equal for files of a partition.
        columns: the columns of the runs; other runs do not count.
        target_size: bytes of a file; see ``tags.z_ordered_by``.
    """
    if not columns or files["tags"].null_count == len(files):
        return 0
    runs = places_of(files).runs
    is_of_run = z_ordered_by(files, physical_names(snapshot, columns), target_size) & (runs >= 0)
    runs, partitions = runs[is_of_run], partitions[is_of_run]
    pairs = partitions * (runs.max(initial=0) + 1) + runs
    return len(np.unique(pairs)) - len(np.unique(partitions))
