"""Arrow arrays from Python values and back, through their buffers.

``pa.array``, ``pa.scalar``, ``Array.to_numpy`` and Python values as arguments of compute functions import pandas when
they are first used. That takes a quarter of a second in a new process, and a second in a Spark worker. Code that opens
tables, lists files or runs in workers uses this module instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_MOST_BYTES = np.iinfo(np.int32).max


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of values that have the right types; None becomes null.

    Args:
        kind: string, binary, bool, an integer, a floating-point number, a list of these, a map of strings, or a struct
            of them (values are mappings).

    Raises:
        OverflowError: an integer is out of the range of ``kind``, or a column has more than 2 GiB of text.
        ValueError: a text is not valid UTF-8.
        TypeError: ``kind`` is another type.
    """
    if values and values[0] is None and values.count(None) == len(values):  # as most fields of most actions
        return pa.nulls(len(values), kind)
    if pa.types.is_string(kind):
        return strings(values)
    if pa.types.is_binary(kind):
        texts = [b"" if value is None else value for value in values]
        return pa.Array.from_buffers(kind, len(values), [_validity(values), *binaries(texts).buffers()[1:]])
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, len(values), [_validity(values), _bitmap(values)])
    if pa.types.is_integer(kind):
        integers = [0 if value is None else value for value in values]
        numbers = np.array(integers, dtype=f"{'i' if pa.types.is_signed_integer(kind) else 'u'}{kind.bit_width // 8}")
        return pa.Array.from_buffers(kind, len(values), [_validity(values), pa.py_buffer(numbers)])
    if pa.types.is_floating(kind):
        numbers = np.array([0.0 if value is None else value for value in values], dtype=f"f{kind.bit_width // 8}")
        return pa.Array.from_buffers(kind, len(values), [_validity(values), pa.py_buffer(numbers)])
    if pa.types.is_map(kind):
        return _maps(values, kind)
    if pa.types.is_list(kind):
        present = [() if value is None else value for value in values]
        items = column([item for value in present for item in value], kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [_validity(values), _offsets(present)], children=[items])
    if pa.types.is_struct(kind):
        children = [
            column([None if value is None else value.get(field.name) for value in values], field.type) for field in kind
        ]
        return pa.Array.from_buffers(kind, len(values), [_validity(values)], children=children)
    raise TypeError(f"the type {kind} is not supported")


def literal(value: Any, kind: pa.DataType) -> pa.Scalar:
    """An Arrow scalar of a value, for compute functions."""
    return column([value], kind)[0]


def is_true(flags: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The flags with false for null."""
    return pc.fill_null(flags, _FALSE)


def may_be_true(flags: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The flags with true for null."""
    return pc.fill_null(flags, _TRUE)


def null_scalar(kind: pa.DataType) -> pa.Scalar:
    """The null of a type."""
    return pa.nulls(1, kind)[0]


def strings(values: Sequence[str | None]) -> pa.Array:
    """A string array.

    Raises:
        OverflowError: the texts have more than 2 GiB in all.
    """
    encoded = [b"" if value is None else value.encode() for value in values]
    buffers = [_validity(values), _offsets(encoded), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def binaries(values: Sequence[bytes]) -> pa.Array:
    """A binary array without nulls.

    Raises:
        OverflowError: the values have more than 2 GiB in all.
    """
    return pa.Array.from_buffers(pa.binary(), len(values), [None, _offsets(values), pa.py_buffer(b"".join(values))])


def int64s(values: Sequence[int] | NDArray[Any]) -> pa.Array:
    """An int64 array without nulls, such as row numbers for ``take``."""
    return pa.Array.from_buffers(
        pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, dtype=np.int64))]
    )


def bools(flags: Sequence[bool] | NDArray[np.bool_]) -> pa.Array:
    """A boolean array without nulls, such as a mask for ``filter``."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bitmap(flags)])


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def nearest_floats(decimals: Any, kind: pa.DataType) -> Any:
    """Decimals (an array, or an expression) as the nearest numbers of the floating-point type ``kind``."""
    # Arrow's own cast is wrong in the last bit: 0.95 becomes 0.9500000000000001.
    return decimals.cast(pa.large_string()).cast(kind)


def flags_of(array: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A boolean column as a new mask; null is False."""
    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.bool_), *(flags_of(chunk) for chunk in array.chunks)])
    flags = bits_of(array.buffers()[1], array.offset, len(array)).view(np.bool_)
    if array.null_count:
        flags &= bits_of(array.buffers()[0], array.offset, len(array)).view(np.bool_)
    return flags


def numbers_of(array: pa.Array | pa.ChunkedArray, kind: Any) -> NDArray[Any]:
    """The values of a fixed-width column as a NumPy array, undefined where null; several chunks are copied.

    Args:
        kind: the numpy type of the same width.
    """
    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([np.empty(0, kind), *(numbers_of(chunk, kind) for chunk in array.chunks)])
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, count=array.offset + len(array))[array.offset :]


def bits_of(buffer: pa.Buffer, offset: int, count: int) -> NDArray[np.uint8]:
    """``count`` bits of a bitmap, as one byte each."""
    if not count:
        return np.empty(0, np.uint8)
    return np.unpackbits(np.frombuffer(buffer, np.uint8), count=offset + count, bitorder="little")[offset:]


def _maps(values: Sequence[Mapping[str, str | None] | None], kind: pa.DataType) -> pa.Array:
    present = [{} if value is None else value for value in values]
    keys = strings([key for value in present for key in value])
    items = strings([item for value in present for item in value.values()])
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, len(values), [_validity(values), _offsets(present)], children=[entries])


def _offsets(values: Sequence[Any]) -> pa.Buffer:
    ends = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=ends[1:])
    if ends[-1] > _MOST_BYTES:
        raise OverflowError(f"the column has {ends[-1]} bytes; expected at most {_MOST_BYTES}")
    return pa.py_buffer(ends.astype(np.int32))


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    if None not in values:
        return None
    return _bitmap([value is not None for value in values])


def _bitmap(values: Sequence[Any] | NDArray[np.bool_]) -> pa.Buffer:
    """The flags as a bitmap; None counts as False."""
    return pa.py_buffer(np.packbits(np.array(values, dtype=bool), bitorder="little"))


_FALSE, _TRUE = (literal(flag, pa.bool_()) for flag in (False, True))
