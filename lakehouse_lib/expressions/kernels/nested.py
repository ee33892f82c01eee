"""Arrays, structs and maps of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import int64s
from lakehouse_lib.expressions.ir import Function


def array(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``array(a, b, ...)``: in each row an array of the arguments' values."""
    kind = _arrow_type(node)
    count, size = len(arguments[0]), len(node.arguments)
    values = _interleaved(arguments) if size else pa.nulls(0, kind.value_type)
    return pa.ListArray.from_arrays(_offsets(count, size), values, type=kind)


def struct(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """A struct in each row, with the arguments as its fields."""
    return pa.StructArray.from_arrays(list(arguments), fields=list(_arrow_type(node)))


def map_of(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``map(key, value, ...)``: a map in each row."""
    kind = _arrow_type(node)
    count, size = len(arguments[0]), len(node.arguments) // 2
    keys = _interleaved(arguments[::2]) if size else pa.nulls(0, kind.key_type)
    items = _interleaved(arguments[1::2]) if size else pa.nulls(0, kind.item_type)
    return pa.MapArray.from_arrays(_offsets(count, size), keys, items, type=kind)


def _interleaved(columns: Sequence[pa.Array]) -> pa.Array:
    """The first values of all columns, then their second values, and so on."""
    order = np.arange(len(columns) * len(columns[0])).reshape(len(columns), -1).T.ravel()
    return pa.concat_arrays(columns).take(int64s(order))


def _offsets(count: int, size: int) -> pa.Array:
    return int64s(np.arange(count + 1) * size).cast(pa.int32())


def _arrow_type(node: Function) -> pa.DataType:
    assert node.type is not None
    return nullable(pa.schema([pa.field("", node.type.to_arrow())])).field(0).type
