"""Parse a block of JSON lines by pyarrow, if it then has the rows that the exact parser (``reader``) would give.

pyarrow reads a column either from numbers or from JSON strings. It returns neither line numbers nor the texts of
values, and accepts several objects in a line. So a block for which the rows could differ is left to the exact parser.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from lakehouse_lib.arrow.values import bools, flags_of, literal, numbers_of, whole
from lakehouse_lib.ingestion.limits import nested_faults
from lakehouse_lib.ingestion.sources.casts import from_text

_MOST_DIGITS = 38
#: Matches a text with a number that may be too small for a double.
_TINY = re.compile(rb"[0-9.][eE]-[0-9]|0{40}")


def typed_columns(data: bytes, schema: pa.Schema) -> list[Any] | None:
    """The columns of a block of whole lines in the schema's types, a row for each line; None: the rows could differ.

    Args:
        data: lines of UTF-8.
    """
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text[: len(data) - data.endswith(b"\n")] == ord("\n"))
    lines = len(ends) + 1
    # Then no line is blank, and in valid JSON each line end is between two objects.
    is_between = (text[ends - 1] == ord("}")) & (text[ends + 1] == ord("{"))
    if not data.startswith(b"{") or not is_between.all() or not _is_text(data):
        return None
    kinds = _read_as(pa.struct(list(schema)))
    if kinds is None:
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(explicit_schema=pa.schema(list(kinds)), unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines:
        return None
    columns = []
    for field in schema:
        column = _typed(whole(table[field.name]), field.type, data)
        if column is None or (pa.types.is_nested(field.type) and any(nested_faults(column, field))):
            return None
        columns.append(column)
    return columns


def _read_as(kind: pa.DataType) -> pa.DataType | None:
    """The type in which pyarrow reads a column; None: it reads no maps, and numbers may overflow without an error."""
    if pa.types.is_struct(kind):
        members = [(member.name, part) for member in kind if (part := _read_as(member.type)) is not None]
        return pa.struct(members) if len(members) == kind.num_fields else None
    if pa.types.is_list(kind):
        item = _read_as(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(kind):
        return None
    if pa.types.is_decimal(kind):
        return kind if kind.precision + kind.scale <= _MOST_DIGITS else None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return kind
    return pa.string()


def _typed(column: pa.Array, kind: pa.DataType, data: bytes) -> pa.Array | None:
    """The column in its type; None: a value does not fit, or could differ from the one in the text."""
    if pa.types.is_struct(kind):
        children = [_typed(column.field(place), member.type, data) for place, member in enumerate(kind)]
        if any(child is None for child in children):
            return None
        validity = bools(flags_of(column.is_valid())).buffers()[1]
        return pa.Array.from_buffers(kind, len(column), [validity], children=children)
    if pa.types.is_list(kind):
        items = _typed(column.flatten(), kind.value_type, data)
        if items is None:
            return None
        lengths = numbers_of(pc.fill_null(pc.list_value_length(column), literal(0, pa.int32())), np.int32)
        offsets = pa.py_buffer(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        validity = bools(flags_of(column.is_valid())).buffers()[1]
        return pa.Array.from_buffers(kind, len(column), [validity, offsets], children=[items])
    if pa.types.is_string(column.type):
        typed, wrong = from_text(column, kind)
        return None if wrong.any() else typed
    return column if _is_exact(column, data) else None


def _is_exact(column: pa.Array, data: bytes) -> bool:
    """Whether the numbers of a column are those of the text."""
    if pa.types.is_decimal(column.type):
        try:
            column.validate(full=True)  # pyarrow does not check the number of digits
        except pa.ArrowInvalid:
            return False
    elif pa.types.is_floating(column.type):
        if pc.any(pc.is_inf(column)).as_py():
            return False
        zeros = pc.any(pc.equal(column, literal(0.0, column.type))).as_py()
        return not (zeros and _TINY.search(data))
    return True


def _is_text(data: bytes) -> bool:
    if len(data) >= 1 << 31:
        return False
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
