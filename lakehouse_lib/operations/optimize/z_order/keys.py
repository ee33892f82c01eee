"""The keys of the k-d tree: signed integers in the order of the column's values, nulls lowest, NaN highest.

Several values may have the same key: the key of a string is the number of smaller words in a sampled vocabulary. Equal
values have equal keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.sorted_search import count_below
from lakehouse_lib.arrow.values import bits_of, int64s, numbers_of

Keys = NDArray[Any]

_EXACT_DECIMAL_DIGITS = 18  # every number of 18 digits fits 64 bits


def has_order(kind: pa.DataType) -> bool:
    """Whether a table can be Z-ordered by columns of this type."""
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_boolean(kind)
        or is_text(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether keys of this type are ranks in a vocabulary."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def vocabulary(sample: pa.Array, limit: int) -> pa.Array:
    """At most ``limit`` distinct values of a text sample, ascending, at equal distances in the sorted sample."""
    present = sample.drop_null()
    ordered = present.take(pc.sort_indices(present))
    if len(ordered) > limit:
        ordered = ordered.take(int64s(np.linspace(0, len(ordered) - 1, limit)))
    return pc.unique(ordered)


def keys(column: pa.Array | pa.ChunkedArray, words: pa.Array | None = None) -> Keys:
    """The keys of a column.

    Args:
        column: of a type that ``has_order``.
        words: the ``vocabulary`` of a text column: the key is the number of words below the value.
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return keys(column.chunk(0), words)
        return np.concatenate([keys(pa.nulls(0, column.type), words), *(keys(chunk, words) for chunk in column.chunks)])
    result = _present(column, words)
    if column.null_count:
        present = bits_of(column.buffers()[0], column.offset, len(column)).view(np.bool_)
        result = np.where(present, result, np.iinfo(result.dtype).min)
    return result


def _present(column: pa.Array, words: pa.Array | None) -> Keys:
    """The keys of an array's values; undefined for nulls."""
    kind = column.type
    if is_text(kind):
        if words is None or not len(words):
            return np.zeros(len(column), np.int32)
        return count_below(words, column).astype(np.int32)
    if pa.types.is_boolean(kind):
        return bits_of(column.buffers()[1], column.offset, len(column)).astype(np.int8)
    if pa.types.is_decimal128(kind):
        return _decimals(column)
    if pa.types.is_floating(kind):
        return _ordinals(numbers_of(column, np.dtype(f"f{kind.bit_width // 8}")))
    return numbers_of(column, np.dtype(f"i{kind.bit_width // 8}"))


def _decimals(column: pa.Array) -> Keys:
    if not len(column):
        return np.empty(0, np.int64)
    words = np.frombuffer(column.buffers()[1], np.int64, count=2 * (column.offset + len(column)))
    low, high = words[2 * column.offset :: 2], words[2 * column.offset + 1 :: 2]
    if column.type.precision <= _EXACT_DECIMAL_DIGITS:
        return np.ascontiguousarray(low)
    # From 2^53 on, only the high word is converted and rounded. Adding the low word could reverse two values' order.
    whole = high.astype(np.float64) * 2.0**64
    wide = np.where(np.abs(high) < 1 << 53, whole + low.view(np.uint64), whole)
    return _ordinals(np.where(high == low >> 63, low.astype(np.float64), wide))


def _ordinals(values: Keys) -> Keys:
    """Floats as integers in the same order; both zeros are equal, and NaN is highest."""
    kind = np.dtype(f"i{values.dtype.itemsize}")
    bits = values.view(kind)  # no arithmetic, because a signalling NaN would raise a warning
    bits = np.where(bits == np.iinfo(kind).min, 0, bits)
    ordered = bits ^ ((bits >> (8 * kind.itemsize - 1)) & np.iinfo(kind).max)
    return np.where(np.isnan(values), np.iinfo(kind).max, ordered)
