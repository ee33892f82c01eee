"""The bytes that a query of a table reads, computed from the log only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.values import bools, numbers_of
from lakehouse_lib.fleet.overlap import files_at_a_point
from lakehouse_lib.fleet.planner.step import OPEN_BYTES
from lakehouse_lib.operations.optimize.z_order.selection import Part
from lakehouse_lib.snapshot import Snapshot


def query_cost(snapshot: Snapshot, columns: Sequence[str] = (), files: pa.Table | None = None) -> int:
    """The bytes that a query of a version reads. Each file that it opens counts as ``OPEN_BYTES``.

    Args:
        columns: the query reads one value of one of these columns, and the result is the mean over the columns.
            Empty: the query scans the table.
        files: a files table of the version, the only files that the query may read; None: all of its files.
    """
    sizes = numbers_of((snapshot.file_columns(["size"]) if files is None else files)["size"], np.int64)
    if not len(sizes) or not columns:
        return int(sizes.sum()) + len(sizes) * OPEN_BYTES
    return int(np.mean(list(depths(snapshot, columns, files).values())) * (sizes.mean() + OPEN_BYTES))


def depths(snapshot: Snapshot, columns: Sequence[str], files: pa.Table | None = None) -> Mapping[str, float]:
    """The mean number of files that a query of one value reads, by column. For a column without bounds: all files.

    Args:
        files: a files table of the version; None: all of its files.
    """
    mean_files = files_at_a_point(snapshot, columns, files)
    count = snapshot.file_count if files is None else len(files)
    return {name: mean_files.get(name, float(count)) for name in columns}


def clustered_cost(
    snapshot: Snapshot,
    files: pa.Table,
    columns: Sequence[str],
    chosen: Sequence[Part],
) -> int:
    """The predicted ``query_cost`` after some files are Z-ordered.

    A k-d tree with n leaves over c columns has n^(1 - 1/c) leaves at a value of one column, and a query of one value
    reads them in every partition. Files that are not rewritten overlap as before, and so do rewritten cells.

    Args:
        files: files table of the snapshot.
        chosen: the files to Z-order.
    """
    stays = np.ones(len(files), np.bool_)
    for part in chosen:
        stays[part.rows] = False
        stays[part.cell_rows] = True
    new_files = [part.files - len(part.cells) if part.run is not None else part.files for part in chosen]
    rest = files.filter(bools(stays))
    total = int(numbers_of(files["size"], np.int64).sum())
    count = len(rest) + sum(new_files)
    exponent = 1 - 1 / len(columns)
    new_depth = sum(max(number, 0) ** exponent for number in new_files)
    remaining = depths(snapshot, columns, rest) if len(rest) else dict.fromkeys(columns, 0.0)
    depth = float(np.mean([min(remaining[name] + new_depth, count) for name in columns]))
    return int(depth * (total / max(count, 1) + OPEN_BYTES))
