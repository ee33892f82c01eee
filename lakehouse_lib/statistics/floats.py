"""Statistics of floating-point columns in new data files, from the rows, because footers are wrong about NaN.

NaN is the greatest number in SQL, but parquet-cpp ignores it in the min and max of a row group. Spark uses this max,
and skips a row group with a NaN for ``x > 5``. So if a column of a file has a NaN, the footer gets no statistics of
that column, and the statistics in the log come from the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import numbers_of

#: The names on the path to a Parquet column, as in ``path_in_schema``: ("s", "x"), ("l", "list", "element").
ParquetPath = tuple[str, ...]


@dataclass(frozen=True)
class FloatRange:
    """The range of a floating-point column.

    Attributes:
        low, high: the least and the greatest number except NaN; None: there is no number.
        nulls: the number of rows with null.
        has_nan: whether a row has NaN.
    """

    low: float | None
    high: float | None
    nulls: int
    has_nan: bool

    def union(self, other: FloatRange) -> FloatRange:
        """The range of the rows of both ranges."""
        lows = [side.low for side in (self, other) if side.low is not None]
        highs = [side.high for side in (self, other) if side.high is not None]
        return FloatRange(
            min(lows, default=None),
            max(highs, default=None),
            self.nulls + other.nulls,
            self.has_nan or other.has_nan,
        )


def float_ranges(data: pa.Table) -> dict[ParquetPath, FloatRange]:
    """The ranges of the floating-point columns of ``data`` at every depth; in lists and maps ``nulls`` is undefined."""
    ranges = {}
    for name, column in zip(data.column_names, data.columns, strict=True):
        for path, values in _float_leaves((name,), column):
            ranges[path] = float_range(values)
    return ranges


def float_range(values: pa.ChunkedArray) -> FloatRange:
    """The range of floating-point values."""
    if len(values) and not values.null_count:
        # NumPy takes a seventh of Arrow's time. If a chunk has a NaN, its min and max are NaN.
        with np.errstate(invalid="ignore"):
            width = np.dtype(f"f{values.type.bit_width // 8}")
            chunks = [numbers_of(chunk, width) for chunk in values.chunks if len(chunk)]
            lows, highs = [chunk.min().item() for chunk in chunks], [chunk.max().item() for chunk in chunks]
        if not any(map(math.isnan, lows)):
            return FloatRange(min(lows), max(highs), 0, has_nan=False)
    is_nan = pc.is_nan(values)
    has_nan = bool(pc.any(is_nan, min_count=0).as_py())
    # After a signalling NaN (such as R's NA) Arrow's min and max ignore the numbers before it.
    bounds = pc.min_max(pc.if_else(is_nan, None, values) if has_nan else values)
    return FloatRange(bounds["min"].as_py(), bounds["max"].as_py(), values.null_count, has_nan)


def union(
    ranges: Mapping[ParquetPath, FloatRange], more: Mapping[ParquetPath, FloatRange]
) -> dict[ParquetPath, FloatRange]:
    """The ranges of the rows of both arguments, which have the same columns; an empty argument has no rows."""
    return {**ranges, **{path: other.union(ranges[path]) if path in ranges else other for path, other in more.items()}}


def footer_columns(schema: pa.Schema, without: Iterable[ParquetPath]) -> bool | list[str]:
    """The argument ``write_statistics`` of pyarrow's ParquetWriter for all columns except ``without``."""
    left_out = set(without)
    if not left_out:
        return True
    return [".".join(path) for path, _ in parquet_leaves(schema) if path not in left_out]


def parquet_leaves(schema: pa.Schema) -> Iterator[tuple[ParquetPath, pa.DataType]]:
    """The path and the type of each leaf column of a Parquet file with this schema."""
    for field in schema:
        yield from _leaves((field.name,), field.type)


def _leaves(path: ParquetPath, kind: pa.DataType) -> Iterator[tuple[ParquetPath, pa.DataType]]:
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _leaves((*path, kind.field(index).name), kind.field(index).type)
    elif pa.types.is_map(kind):
        yield from _leaves((*path, "key_value", "key"), kind.key_type)
        yield from _leaves((*path, "key_value", "value"), kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves((*path, "list", "element"), kind.value_type)
    else:
        yield path, kind


def _float_leaves(path: ParquetPath, column: pa.ChunkedArray) -> Iterator[tuple[ParquetPath, pa.ChunkedArray]]:
    kind = column.type
    if pa.types.is_floating(kind):
        yield path, column
    elif pa.types.is_struct(kind):
        # ``flatten`` makes the members null where the struct is null, and a footer counts these nulls, too.
        members = [chunk.flatten() for chunk in column.chunks]
        for index in range(kind.num_fields):
            yield from _below(
                (*path, kind.field(index).name), kind.field(index).type, [arrays[index] for arrays in members]
            )
    elif pa.types.is_map(kind):
        # Values outside a slice are included; at worst the footer has fewer statistics.
        yield from _below((*path, "key_value", "key"), kind.key_type, [chunk.keys for chunk in column.chunks])
        yield from _below((*path, "key_value", "value"), kind.item_type, [chunk.items for chunk in column.chunks])
    elif pa.types.is_list(kind):
        yield from _below((*path, "list", "element"), kind.value_type, [chunk.flatten() for chunk in column.chunks])


def _below(
    path: ParquetPath, kind: pa.DataType, chunks: list[pa.Array]
) -> Iterator[tuple[ParquetPath, pa.ChunkedArray]]:
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        yield from _float_leaves(path, pa.chunked_array(chunks, kind))
