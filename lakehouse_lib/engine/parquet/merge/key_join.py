"""Equi-join of batches with the rows of a source, on any number of key columns.

The key of a row becomes one number of 64 bits. Equal keys have equal numbers, so no pair is missed. Different keys may
have equal numbers, so the caller evaluates the condition for each pair. A row with a NULL key has no pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, numbers_of

Rows = NDArray[np.int64]
_Codes = NDArray[np.uint64]

_MOST_DIGITS = 38
#: Every integer type counts as a decimal with this many digits, because Arrow casts a 64-bit integer only to such
#: decimals or wider ones.
_INTEGER_DIGITS = 19

_WORD = 8
_WEIGHT = np.uint64(0x9E3779B97F4A7C15)
#: The filter table has this many entries for each row of the source, up to a maximum; an entry has one byte.
_ENTRIES, _MOST_ENTRIES = 16, 1 << 24
#: The rows of a batch whose codes are computed at a time, so that they fit into the processor's cache.
_SLICE = 1 << 15


class KeyJoin:
    """The join of batches with a source. It is immutable and picklable, and threads can share it.

    Args:
        columns: the key columns of the source.
        kinds: for each key column, the ``common_type`` of the source's column and the batches' column.
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray], kinds: Sequence[pa.DataType]) -> None:
        self._kinds = tuple(kinds)
        codes, is_key = _codes_of(columns, kinds)
        rows = np.flatnonzero(is_key)
        order = np.argsort(codes[rows], kind="stable")
        self._rows = rows[order]
        self._codes = codes[self._rows]
        # Most rows of a batch have no pair. Usually the upper bits of the code show this without a search.
        bits = max(1, min(_MOST_ENTRIES, _ENTRIES * len(rows) + 1).bit_length() - 1)
        self._shift = np.uint64(64 - bits)
        self._is_used = np.zeros(1 << bits, np.bool_)
        self._is_used[self._codes >> self._shift] = True
        # The upper bits are also the number of a bucket. A bucket has about one code, so its codes are compared one by
        # one. A binary search would take several times as long.
        bits = max(1, len(rows).bit_length())
        self._bucket_shift = np.uint64(64 - bits)
        sizes = np.bincount((self._codes >> self._bucket_shift).astype(np.int64), minlength=1 << bits)
        self._bucket_starts = np.concatenate([[0], np.cumsum(sizes)])

    def pairs(self, columns: Sequence[pa.ChunkedArray], limit: int) -> Iterator[tuple[Rows, Rows]]:
        """The pairs of rows with equal codes: row numbers in the batch and in the source, at most ``limit`` at a time.

        Args:
            columns: the key columns of the batch.
        """
        candidates, codes = self._candidates(columns)
        buckets = (codes >> self._bucket_shift).astype(np.int64)
        starts = self._bucket_starts[buckets]
        sizes = self._bucket_starts[buckets + 1] - starts
        ends = np.cumsum(sizes)
        offsets = starts - (ends - sizes)
        total = int(ends[-1]) if len(ends) else 0
        for first in range(0, total, limit):
            last = min(first + limit, total)
            part = slice(np.searchsorted(ends, first, side="right"), np.searchsorted(ends, last) + 1)
            counts = np.minimum(ends[part], last) - np.maximum((ends - sizes)[part], first)
            entries = np.arange(first, last) + np.repeat(offsets[part], counts)
            is_equal = np.repeat(codes[part], counts) == self._codes[entries]
            yield np.repeat(candidates[part], counts)[is_equal], self._rows[entries[is_equal]]

    def _candidates(self, columns: Sequence[pa.ChunkedArray]) -> tuple[Rows, _Codes]:
        """The rows of a batch that may have a pair, and their codes."""
        rows, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for start in range(0, len(columns[0]), _SLICE):
            slice_codes, is_key = _codes_of([column.slice(start, _SLICE) for column in columns], self._kinds)
            is_candidate = is_key & self._is_used[slice_codes >> self._shift]
            rows.append(np.flatnonzero(is_candidate) + start)
            codes.append(slice_codes[is_candidate])
        return np.concatenate(rows), np.concatenate(codes)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two key columns are compared; None if they cannot be keys."""
    types = pa.types
    if types.is_integer(left) and types.is_integer(right):
        return pa.int64()
    if all(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind) for kind in (left, right)):
        if types.is_floating(left) or types.is_floating(right):
            return pa.float64()
        sizes = [_digits(kind) for kind in (left, right)]
        scale = max(size[1] for size in sizes)
        digits = max(size[0] for size in sizes) + scale
        return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None
    if all(types.is_temporal(kind) for kind in (left, right)) and left != right:
        return pa.timestamp("us")
    return left if left == right and not types.is_nested(left) else None


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """The numbers of digits before and after the point of a decimal or an integer type."""
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (_INTEGER_DIGITS, 0)


def _codes_of(columns: Sequence[pa.ChunkedArray], kinds: Sequence[pa.DataType]) -> tuple[_Codes, NDArray[np.bool_]]:
    """The code of each row, and whether it is a key: no column is null."""
    codes = np.zeros(len(columns[0]), np.uint64)
    is_key = np.ones(len(columns[0]), np.bool_)
    for column, kind in zip(columns, kinds, strict=True):
        start = 0
        for chunk in column.chunks:
            values, chunk_rows = _as_type(chunk, kind), slice(start, start + len(chunk))
            start += len(chunk)
            if values.null_count:
                is_key[chunk_rows] &= flags_of(values.is_valid())
            for words in _words(values):
                # Because of the addition, words that are equal to the code of the columns before do not cancel it.
                codes[chunk_rows] = _mix(codes[chunk_rows] + _WEIGHT, words)
    return codes, is_key


def _mix(codes: _Codes, words: _Codes) -> _Codes:
    mixed = (codes ^ words) * _WEIGHT
    mixed ^= mixed >> np.uint64(29)
    result: _Codes = mixed * _WEIGHT
    return result


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(kind)  # drops the time zone; the values are UTC
    if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
        # A condition converts a decimal to the nearest double. Arrow's direct cast does not.
        values = values.cast(pa.string())
    return values.cast(kind, safe=False)


def _words(values: pa.Array) -> Iterator[_Codes]:
    """Arrays with 64 bits of each value; a wide type has several arrays. The bits of nulls are undefined."""
    kind = values.type
    if pa.types.is_floating(kind):
        # -0.0 becomes 0.0, and every NaN gets the same bits.
        numbers = numbers_of(values, f"<f{kind.bit_width // 8}") + 0.0
        yield np.where(np.isnan(numbers), np.nan, numbers.astype(np.float64)).view(np.uint64)
    elif pa.types.is_decimal(kind):
        words = numbers_of(values, "V16").view("<u8")
        yield words[::2]
        yield words[1::2]
    elif pa.types.is_boolean(kind):
        yield flags_of(values).astype(np.uint64)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield _text_codes(values)
    else:
        yield numbers_of(values, f"<i{kind.bit_width // 8}").astype(np.uint64)


def _text_codes(texts: pa.Array) -> _Codes:
    """The code of each text or binary value, from its length and all of its bytes."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    first, last = int(ends[0]), int(ends[-1])
    text = np.zeros(last - first + _WORD, np.uint8)  # zeros at the end: the last word may go beyond the text
    if last > first:
        text[:-_WORD] = np.frombuffer(data, np.uint8, last - first, first)
    starts = starts - first
    # The eight bytes at every position as a number; nothing is copied.
    words = np.ndarray((len(text) - _WORD + 1,), "<u8", text, strides=(1,))
    codes: _Codes = lengths.astype(np.uint64)
    rows = np.flatnonzero(lengths > 0)
    for position in range(0, int(lengths.max()), _WORD):
        rows = rows[lengths[rows] > position]
        used_bytes = np.minimum(lengths[rows] - position, _WORD)
        word = words[starts[rows] + position] << (8 * (_WORD - used_bytes)).astype(np.uint64)
        codes[rows] = _mix(codes[rows], word)
    return codes
