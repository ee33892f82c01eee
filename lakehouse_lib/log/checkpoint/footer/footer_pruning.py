"""Data skipping of whole row groups of a checkpoint, by the statistics in its footer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakehouse_lib.data_skipping.file_values import FileValues, Needs
from lakehouse_lib.log.checkpoint.part import ParquetPart
from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.statistics import Bounds, struct_bounds

# Types whose footer bounds hold for all values. Floats are left out, because footers ignore NaN. Strings are left out,
# because bounds are truncated: the largest bound may not be that of the largest value.
_BOUNDED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
# Partition columns whose text has one meaning. Timestamps are left out: readers differ in the time zone.
_EXACT = ("byte", "short", "integer", "long", "date", "string")


def values_of_row_group(part: ParquetPart, block: int, needs: Needs) -> FileValues | None:
    """One row with the bounds and partition values of all adds of the row group. If this row cannot match, no add can.

    None if the footer does not have enough statistics. The footer cannot show that the bounds of one file are invalid
    (a minimum above the maximum). So such a file is skipped if the bounds of its row group cannot match, although
    ``file_pruning`` would keep it by its own bounds.
    """
    partitions = {}
    for key, kind in needs.partitions.items():
        value = _only_value(part, block, key, kind)
        if value is None:
            return None
        partitions[key] = value
    bounds = {path: _bounds(part, block, path, kind) for path, kind in needs.bounds.items()}
    present_bounds = [column_bounds for column_bounds in bounds.values() if column_bounds is not None]
    if not partitions and not present_bounds:
        return None
    unknown = {path: struct_bounds(_ROW, {path: kind})[path] for path, kind in needs.bounds.items()}
    return FileValues(1, partitions, {path: column_bounds or unknown[path] for path, column_bounds in bounds.items()})


def _only_value(part: ParquetPart, block: int, key: str, kind: DataType) -> pa.Array | None:
    if not isinstance(kind, PrimitiveType) or (kind.type not in _EXACT and kind.decimal is None):
        return None
    extremes = part.extremes("add", block, "partitionValues_parsed", key)
    # The empty string means null in a partition value, but the footer does not count it as null.
    if extremes is None or extremes[0] != extremes[1] or extremes[0] == "":
        return None
    return _array(extremes[0], kind.to_arrow())


def _bounds(part: ParquetPart, block: int, path: Sequence[str], kind: DataType) -> Bounds | None:
    if not isinstance(kind, PrimitiveType) or (kind.type not in _BOUNDED and kind.decimal is None):
        return None
    ends: dict[str, Any] = {}
    for end, position in (("minValues", 0), ("maxValues", 1)):
        extremes = part.extremes("add", block, "stats_parsed", end, *path)
        value = _array(extremes[position], kind.to_arrow()) if extremes is not None else None
        if value is None:
            return None
        for name in reversed(path):
            value = pa.StructArray.from_arrays([value], [name])
        ends[end] = value
    row = pa.StructArray.from_arrays(list(ends.values()), list(ends))
    return struct_bounds(row, {tuple(path): kind})[tuple(path)]


def _array(value: Any, kind: pa.DataType) -> pa.Array | None:
    try:
        return pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # the value was stored as another type


#: A row without statistics.
_ROW = pa.StructArray.from_buffers(pa.struct([]), 1, [None])
