"""Equi-join of batches with the rows of a source, on any number of key columns.

The values of each key column become codes: positions in the source's distinct values. Rows with equal codes are a pair.
No pair is missed. A NULL is equal to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import numbers_of, whole

Rows = NDArray[np.int64]
_NO_CODE = -1
_MOST_DIGITS = 38
#: Of every integer type, because Arrow casts a 64-bit integer only to decimals with that many digits.
_INTEGER_DIGITS = 19


class KeyJoin:
    """The join of batches with a source.

    Args:
        columns: the key columns of the source, each in a type of ``common_type``.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: list[pa.Array] = []
        self._radices: list[int] = []
        codes = np.zeros(len(columns[0]), np.int64)
        missing = np.zeros(len(columns[0]), np.bool_)
        for column in columns:
            encoded = pc.dictionary_encode(_normal(column))
            self._values.append(encoded.dictionary)
            self._radices.append(max(1, len(encoded.dictionary)))
            own = _codes(encoded.indices)
            missing |= own < 0
            codes = codes * self._radices[-1] + own
        # One number per combination that the source has, so that codes of many columns do not overflow an index.
        present = np.flatnonzero(~missing)
        self._combinations, groups = np.unique(codes[present], return_inverse=True)
        order = np.argsort(groups, kind="stable")
        self._rows = present[order]
        self._starts = np.searchsorted(groups[order], np.arange(len(self._combinations) + 1))

    def pairs(self, columns: Sequence[pa.Array], limit: int) -> Iterator[tuple[Rows, Rows]]:
        """The pairs of equal keys: row numbers of the batch and of the source, at most ``limit`` at a time."""
        codes = np.zeros(len(columns[0]), np.int64)
        missing = np.zeros(len(columns[0]), np.bool_)
        for column, values, radix in zip(columns, self._values, self._radices, strict=True):
            own = _codes(pc.index_in(_normal(column), value_set=values))
            missing |= own < 0
            codes = codes * radix + own
        candidates = np.flatnonzero(~missing)
        if not len(candidates) or not len(self._combinations):
            return
        places = np.searchsorted(self._combinations, codes[candidates])
        places[places == len(self._combinations)] = 0
        is_pair = self._combinations[places] == codes[candidates]
        batch_rows, groups = candidates[is_pair], places[is_pair]
        counts = self._starts[groups + 1] - self._starts[groups]
        ends = np.cumsum(counts)
        for first in range(0, int(ends[-1]) if len(ends) else 0, limit):
            numbers = np.arange(first, min(first + limit, int(ends[-1])))
            entries = np.searchsorted(ends, numbers, side="right")
            offsets = numbers - (ends - counts)[entries]
            yield batch_rows[entries], self._rows[self._starts[groups][entries] + offsets]


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of the codes of two key columns; None if they cannot be keys.

    Equal values have equal codes. Different values may have equal codes too, such as large integers as floats.
    """
    types = pa.types
    if types.is_integer(left) and types.is_integer(right):
        return pa.int64()
    if all(types.is_temporal(kind) for kind in (left, right)) and left != right:
        return pa.timestamp("us")
    if all(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind) for kind in (left, right)):
        if types.is_floating(left) or types.is_floating(right):
            return pa.float64()
        sizes = [_digits(kind) for kind in (left, right)]
        scale = max(size[1] for size in sizes)
        digits = max(size[0] for size in sizes) + scale
        return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None
    return left if left == right and not types.is_nested(left) else None


def as_key(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A key column in the type of its codes."""
    values = whole(column)
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(kind)
    if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
        values = values.cast(pa.string())  # Arrow's own cast is not to the nearest double, as that of a condition is
    return values.cast(kind, safe=False)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """The digits before and after the point of a decimal or an integer type."""
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (_INTEGER_DIGITS, 0)


def _normal(column: pa.Array) -> pa.Array:
    """Floats with one bit pattern for zero and one for NaN, because Arrow compares the bits."""
    if not pa.types.is_floating(column.type):
        return column
    values = np.where(np.isnan(numbers := numbers_of(pc.fill_null(column, 0.0), np.float64)), np.nan, numbers + 0.0)
    return pc.if_else(pc.is_valid(column), pa.array(values), pa.scalar(None, pa.float64()))


def _codes(indices: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    array = whole(indices).cast(pa.int64())
    return numbers_of(pc.fill_null(array, pa.scalar(_NO_CODE, pa.int64())), np.int64)
