"""Alignment of incoming batches to a table's schema, in pieces that fit 32-bit offsets.

An array of the table's types holds less than 2 GiB of text or bytes, and less than 2**31 list elements. Columns of
view, large and dictionary-encoded types may hold more in one batch. Arrow's casts then fail, or overflow the offsets
without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import bits_of, numbers_of
from lakehouse_lib.errors import SchemaMismatchError
from lakehouse_lib.schema.rows.enforcement import align
from lakehouse_lib.schema.types import Schema

#: The largest ``weight`` of a column in a piece. Memory holds a few pieces at a time, each before and after alignment.
PIECE_BYTES = 256 << 20
_MOST_BYTES = (1 << 31) - 1


def align_batches(
    batches: Iterable[pa.RecordBatch], schema: Schema, *, table: str | None = None, piece_bytes: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """Batches aligned to the schema by ``align``; a batch with a column of more than ``piece_bytes`` is split.

    Args:
        piece_bytes: the largest ``weight`` of a column; default 256 MiB.

    Raises:
        SchemaMismatchError: as ``align``; or a column of a single row has 2 GiB, or 2**31 list elements, or more.
    """
    target = nullable(schema.to_arrow())  # once, because it takes more than a millisecond for 300 columns
    for batch in batches:
        for piece in _pieces(batch, piece_bytes, table):
            yield align(piece, schema, target=target, table=table)


def _pieces(batch: pa.RecordBatch, piece_bytes: int, table: str | None) -> Iterator[pa.RecordBatch]:
    sizes = [weight(column) for column in batch.columns]
    largest = max(sizes, default=0)
    if largest <= piece_bytes:
        yield batch
        return
    if len(batch) == 1:
        if largest > _MOST_BYTES:
            raise SchemaMismatchError(
                f"a value of the column {batch.schema.names[sizes.index(largest)]!r} has {largest} bytes or list "
                "elements; expected fewer than 2**31",
                table=table,
                hint="Split the value into several rows, or store it outside of the table and only its location here",
            )
        yield batch
        return
    middle = len(batch) // 2
    yield from _pieces(batch.slice(0, middle), piece_bytes, table)
    yield from _pieces(batch.slice(middle), piece_bytes, table)


def weight(array: pa.Array) -> int:
    """The size that 32-bit offsets limit: the bytes of text or binary, or the elements of lists or maps.

    Dictionary-encoded and run-end-encoded values count with their decoded size. A nested array counts as much as its
    largest child array.
    """
    kind, types = array.type, pa.types
    if types.is_struct(kind):
        return max((weight(array.field(index)) for index in range(kind.num_fields)), default=0)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        first, end = _ends(array)
        return max(end - first, weight(array.values.slice(first, end - first)))
    if types.is_nested(kind) and not types.is_union(kind) and not types.is_run_end_encoded(kind):
        members = array.flatten()  # list views and fixed-size lists
        return max(len(members), weight(members))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        first, end = _ends(array)
        return end - first
    if types.is_fixed_size_binary(kind):
        return int(kind.byte_width * len(array))
    return int(_lengths(array).sum()) if _has_lengths(kind) else 0


def _ends(array: pa.Array) -> tuple[int, int]:
    """The offsets of the first value's start and of the last value's end."""
    if not len(array):
        return 0, 0
    kind = array.type
    wide = pa.types.is_large_list(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    offsets = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
    return int(offsets[array.offset]), int(offsets[array.offset + len(array)])


def _has_lengths(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _has_lengths(kind.value_type)
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _lengths(array: pa.Array) -> NDArray[Any]:
    """Bytes of each value; 0 for null."""
    if not len(array):
        return np.zeros(0, np.int64)
    kind = array.type
    if pa.types.is_dictionary(kind):
        value_lengths = _lengths(array.dictionary)
        places = array.indices.drop_null()
        lengths: NDArray[Any] = value_lengths[numbers_of(places, places.type.to_pandas_dtype())]
        return lengths
    if pa.types.is_run_end_encoded(kind):
        first = array.find_physical_offset()
        count = array.find_physical_length()
        ends = numbers_of(array.run_ends, array.run_ends.type.to_pandas_dtype())[first : first + count]
        ends_in_slice = np.minimum(ends.astype(np.int64) - array.offset, len(array))
        runs = np.diff(ends_in_slice, prepend=0)
        repeated: NDArray[Any] = runs * _lengths(array.values.slice(first, count))
        return repeated
    if pa.types.is_fixed_size_binary(kind):
        lengths = np.full(len(array), kind.byte_width)
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        lengths = np.frombuffer(array.buffers()[1], np.int32)[4 * array.offset : 4 * (array.offset + len(array)) : 4]
    else:
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        offsets = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
        lengths = np.diff(offsets[array.offset : array.offset + len(array) + 1])
    if array.null_count:
        lengths = np.where(bits_of(array.buffers()[0], array.offset, len(array)), lengths, 0)
    return lengths.astype(np.int64)
