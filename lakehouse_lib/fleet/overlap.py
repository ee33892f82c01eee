"""The overlap of a table's files: how many of them may hold the same value of a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import numbers_of
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import Bounds, ColumnPath, bounds_of


def files_at_a_point(snapshot: Snapshot, columns: Sequence[str], files: pa.Table | None = None) -> dict[str, float]:
    """The mean number of files that may hold the same value, by column.

    The mean is over the values that are the min or the max of a file. The range of a file is from its min to its max.
    1.0 means that no ranges overlap; the number of files means that all ranges overlap. A file with unknown bounds
    counts at every value, because a query has to read it. A column without bounds in any file is left out.

    Args:
        files: a files table of the version; None: all of its files.

    Raises:
        InvalidArgumentError: a column does not exist, or its type has no order.
    """
    return depths_of(column_bounds(snapshot, columns, files))


def column_bounds(snapshot: Snapshot, columns: Sequence[str], files: pa.Table | None = None) -> dict[str, Bounds]:
    """The bounds of columns in each file. Partition columns have no bounds and are left out.

    Args:
        files: a files table of the version; None: all of its files. In this case, only the bounds of these columns are
            parsed, and the bounds in the checkpoint are cached.

    Raises:
        InvalidArgumentError: a column does not exist, or its type has no order.
    """
    column_types: dict[ColumnPath, DataType] = {}
    names: dict[ColumnPath, str] = {}
    for name in columns:
        field = snapshot.schema.get(name)
        if field is None or not isinstance(field.type, PrimitiveType):
            raise InvalidArgumentError(
                f"column {name!r} does not exist or has no order; expected one of {', '.join(snapshot.schema.names)}",
                table=snapshot.store.root,
                version=snapshot.version,
                hint="Name a column of a primitive type",
                code="DELTA_COLUMN_NOT_FOUND",
            )
        if field.name not in snapshot.partition_columns:
            path = (snapshot.layout.physical_name(field),)
            column_types[path], names[path] = field.type, field.name
    if not column_types:
        return {}
    if files is None:
        bounds = snapshot.query(lambda state: state.files.bounds(column_types))
    else:
        bounds = bounds_of(files, column_types)
    return {names[path]: bound for path, bound in bounds.items()}


def depths_of(bounds: Mapping[str, Bounds]) -> dict[str, float]:
    """``files_at_a_point`` of columns with these bounds."""
    depths = {name: _mean_depth(bound.min, bound.max) for name, bound in bounds.items()}
    return {name: depth for name, depth in depths.items() if depth is not None}


def skipped_shares(depths: Mapping[str, float], files: int, columns: Iterable[str]) -> dict[str, float]:
    """The mean share of the files that a query of one value of a column skips by the statistics in the log, by column.

    The query asks for a value that is the min or the max of a file; every such value is equally likely. It skips the
    files whose range from min to max does not have the value. A file that lacks a bound is not skipped. So a column
    without bounds in any file has 0.0, and a column whose files do not overlap has 1 - 1 / files.

    Args:
        depths: the result of ``depths_of``.
        files: the number of files.
        columns: the columns of the result.
    """
    return {name: max(0.0, 1 - depths[name] / files) if name in depths else 0.0 for name in columns}


def _mean_depth(low: pa.Array, high: pa.Array) -> float | None:
    has_bounds = pc.and_(pc.is_valid(low), pc.is_valid(high))
    low, high = low.filter(has_bounds), high.filter(has_bounds)
    if not len(low):
        return None
    # Ranks keep the order of any type, and NumPy can count them.
    rank = numbers_of(pc.rank(pa.concat_arrays([low, high]), tiebreaker="min"), np.uint64)
    starts, ends = np.sort(rank[: len(low)]), np.sort(rank[len(low) :])
    points = np.concatenate([starts, ends])
    covering = np.searchsorted(starts, points, side="right") - np.searchsorted(ends, points, side="left")
    return float(covering.mean()) + int(pc.sum(pc.invert(has_bounds)).as_py())
