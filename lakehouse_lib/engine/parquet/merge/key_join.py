"""Equi-join of batches with the rows of a source, on any number of key columns.

The key of a row is hashed to a *code*, a number of 64 bits. Equal keys have equal codes, so no pair is missed.
Different keys may have equal codes, so the caller evaluates the condition for each pair. A row with a NULL in a key
column has no pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, nearest_floats, numbers_of

RowNumbers = NDArray[np.int64]
_Codes = NDArray[np.uint64]

_MOST_DIGITS = 38
#: Every integer type counts as a decimal with this many digits, because Arrow casts a 64-bit integer to no decimal
#: with fewer digits.
_INTEGER_DIGITS = 19

_WORD_BYTES = 8
#: The multiplier of the hash. It is odd, so that different numbers have different products.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
#: The filter has a power of two of entries: at most 16 for each row of the source, and at most 2^24. An entry has one
#: byte.
_FILTER_ENTRIES_A_ROW, _MOST_FILTER_ENTRIES = 16, 1 << 24
#: The number of rows of a batch whose codes are computed at a time, so that the codes fit into the processor's cache.
_SLICE_ROWS = 1 << 15


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
        # Most rows of a batch have no pair. The filter usually shows this without a search: it has the upper bits of
        # all codes of the source.
        filter_bits = max(1, min(_MOST_FILTER_ENTRIES, _FILTER_ENTRIES_A_ROW * len(rows) + 1).bit_length() - 1)
        self._filter_shift = np.uint64(64 - filter_bits)
        self._filter = np.zeros(1 << filter_bits, np.bool_)
        self._filter[self._codes >> self._filter_shift] = True
        # The uppermost bits of a code are the number of its bucket. There are more buckets than codes, so the codes of
        # a bucket are compared one by one. A binary search would take several times as long.
        bucket_bits = max(1, len(rows).bit_length())
        self._bucket_shift = np.uint64(64 - bucket_bits)
        sizes = np.bincount((self._codes >> self._bucket_shift).astype(np.int64), minlength=1 << bucket_bits)
        self._bucket_starts = np.concatenate([[0], np.cumsum(sizes)])

    def pairs(self, columns: Sequence[pa.ChunkedArray], limit: int) -> Iterator[tuple[RowNumbers, RowNumbers]]:
        """The pairs of rows with equal codes, as row numbers in the batch and row numbers in the source.

        Args:
            columns: the key columns of the batch.
            limit: the greatest number of pairs at a time.
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

    def _candidates(self, columns: Sequence[pa.ChunkedArray]) -> tuple[RowNumbers, _Codes]:
        """The rows of a batch that may have a pair, and their codes."""
        rows, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for start in range(0, len(columns[0]), _SLICE_ROWS):
            slice_codes, is_key = _codes_of([column.slice(start, _SLICE_ROWS) for column in columns], self._kinds)
            is_candidate = is_key & self._filter[slice_codes >> self._filter_shift]
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
        (left_before, left_after), (right_before, right_after) = _digits(left), _digits(right)
        scale = max(left_after, right_after)
        precision = max(left_before, right_before) + scale
        return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS else None
    if all(types.is_temporal(kind) for kind in (left, right)) and left != right:
        return pa.timestamp("us")
    return left if left == right and not types.is_nested(left) and not types.is_null(left) else None


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
                # Without the addition, words that equal the code of the earlier columns would make the code 0. For
                # example, every key of zeros would have the code 0.
                codes[chunk_rows] = _mix(codes[chunk_rows] + _MULTIPLIER, words)
    return codes, is_key


def _mix(codes: _Codes, words: _Codes) -> _Codes:
    """The next codes, which depend on all bits of the codes and of the words."""
    products = (codes ^ words) * _MULTIPLIER
    products ^= products >> np.uint64(29)
    result: _Codes = products * _MULTIPLIER
    return result


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(kind)  # drops the time zone; the values are UTC
    if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
        return nearest_floats(values, kind)
    return values.cast(kind, safe=False)


def _words(values: pa.Array) -> Iterator[_Codes]:
    """The bits of each value as 64-bit words: one array of words, or two arrays for decimals.

    The word of a text or binary value is the code of its bytes. The word of a null is undefined.
    """
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
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    text = np.zeros(last - first + _WORD_BYTES, np.uint8)  # zeros at the end: the last word may go beyond the text
    if last > first:
        text[:-_WORD_BYTES] = np.frombuffer(data, np.uint8, last - first, first)
    starts = starts - first
    # The eight bytes at every position as a number; nothing is copied.
    words = np.ndarray((len(text) - _WORD_BYTES + 1,), "<u8", text, strides=(1,))
    codes: _Codes = lengths.astype(np.uint64)
    rows = np.flatnonzero(lengths > 0)
    for position in range(0, int(lengths.max()), _WORD_BYTES):
        rows = rows[lengths[rows] > position]
        used_bytes = np.minimum(lengths[rows] - position, _WORD_BYTES)
        word = words[starts[rows] + position] << (8 * (_WORD_BYTES - used_bytes)).astype(np.uint64)
        codes[rows] = _mix(codes[rows], word)
    return codes
