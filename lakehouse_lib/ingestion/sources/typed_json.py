"""Parse a block of JSON lines by pyarrow, if it then has the rows that the exact parser (``json``) would give.

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

from lakehouse_lib.arrow.values import literal, whole
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
    kinds = [(field.name, kind) for field in schema if (kind := _read_as(field.type)) is not None]
    if len(kinds) < len(schema):
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(explicit_schema=pa.schema(kinds), unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines:
        return None
    columns = []
    for field in schema:
        column = whole(table[field.name])
        if pa.types.is_string(column.type):
            column, wrong = from_text(column, field.type)
            if wrong.any():
                return None
        elif not _is_exact(column, data):
            return None
        columns.append(column)
    return columns


def _read_as(kind: pa.DataType) -> pa.DataType | None:
    """The type in which pyarrow reads a column; None: its numbers may overflow without an error."""
    if pa.types.is_decimal(kind):
        return kind if kind.precision + kind.scale <= _MOST_DIGITS else None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return kind
    return pa.string()


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
