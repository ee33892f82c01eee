"""Parse the lines of a block by pyarrow, if the rows are then the same as those of the exact parser (``reader``).

pyarrow reads a column either from numbers or from JSON strings. It returns neither line numbers nor the texts of
values, and accepts several objects in a line. So lines for which the rows could differ are left to the exact parser.
Parsing parts of the block finds these lines: the error of pyarrow has the row in which it stops, or else the part is
halved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from lakehouse_lib.arrow.values import as_array, bools, flags_of, int64s, literal, numbers_of
from lakehouse_lib.ingestion.limits import nested_faults
from lakehouse_lib.ingestion.sources.casts import from_text

_MOST_DIGITS = 38
#: Matches a text with a number that may be too small for a double.
_TINY = re.compile(rb"[0-9.][eE]-[0-9]|0{40}")
#: Matches a text with -0 as a whole number. The exact parser gives it no sign.
_MINUS_ZERO = re.compile(rb"-0(?![0-9.eE])")
#: Matches the row in which pyarrow stops, in its error message. If this row is missing or wrong, more lines are left to
#: the exact parser.
_ROW = re.compile(r" in row (\d+)$")
#: The number of lines that the exact parser reads in the time of two attempts.
_FEW_LINES = 16
#: The fixed time of an attempt, as the number of lines that pyarrow parses in this time. The lines of the attempt add
#: their own time.
_LINES_OF_AN_ATTEMPT = 64
#: The limit of the time of all attempts on a block, as passes of pyarrow over the block plus attempts of few lines. The
#: exact parser takes the time of about fifteen passes.
_MOST_PASSES = 8
_MOST_ATTEMPTS_OF_FEW_LINES = 16


class TypedLines(NamedTuple):
    """The rows of the lines of a block that pyarrow can parse.

    Attributes:
        columns: the columns in the schema's types.
        lines: the numbers of the rows' lines, ascending, counted from 0.
        rest: the numbers of the other lines, ascending.
    """

    columns: list[Any]
    lines: NDArray[np.int64]
    rest: NDArray[np.int64]


def typed_columns(data: bytes, schema: pa.Schema) -> TypedLines | None:
    """The rows of a block of whole lines, a row for each line; None: pyarrow cannot read the types, or is slower.

    Args:
        data: lines of UTF-8.
    """
    kinds = _read_as(pa.struct(list(schema)))
    if kinds is None or not data:
        return None
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1])
    # Such lines are not blank, and in valid JSON each line end between them is between two objects.
    is_object = (ends > starts) & (text[np.minimum(starts, len(data) - 1)] == ord("{")) & (text[ends - 1] == ord("}"))
    lines = np.flatnonzero(is_object)
    if len(lines) < len(starts):
        data = b"".join(data[starts[line] : ends[line]] + b"\n" for line in lines.tolist())
        starts = np.concatenate([[0], np.cumsum(ends[lines] - starts[lines] + 1)[:-1]]) if len(lines) else starts[:0]
    table = _read(data, starts.tolist(), pa.schema(list(kinds)))
    if table is None:
        return None
    rows, is_read = table
    lines = lines[is_read]
    columns = []
    wrong = np.zeros(len(rows), bool)
    for field in schema:
        column, misfits = _typed(as_array(rows[field.name]), field.type)
        wrong |= misfits
        if pa.types.is_nested(field.type):
            for _, _, faulty in nested_faults(column, field):
                wrong |= faulty
        columns.append(column)
    if wrong.any():
        fits = int64s(np.flatnonzero(~wrong))
        columns, lines = [column.take(fits) for column in columns], lines[~wrong]
    rest = np.setdiff1d(np.arange(len(ends)), lines, assume_unique=True)
    return TypedLines(columns, lines, rest)


def _read(data: bytes, starts: Sequence[int], schema: pa.Schema) -> tuple[pa.Table, NDArray[np.bool_]] | None:
    """The rows of the lines that pyarrow reads exactly, and a mask of these lines; None: the exact parser is faster.

    Args:
        starts: where the lines start.
    """
    edges = [*starts, len(data)]
    is_read = np.zeros(len(starts), bool)
    tables = [pa.Table.from_batches([], schema)]
    budget = _MOST_PASSES * len(starts) + _MOST_ATTEMPTS_OF_FEW_LINES * _LINES_OF_AN_ATTEMPT
    waiting = [(0, len(starts))] if len(starts) else []
    while waiting:
        low, high = waiting.pop()
        if budget < 0:
            return None
        answer = _attempt(pa.py_buffer(data)[edges[low] : edges[high]], high - low, schema)
        budget -= (answer if isinstance(answer, int) else high - low) + _LINES_OF_AN_ATTEMPT
        if isinstance(answer, pa.Table):
            tables.append(answer)
            is_read[low:high] = True
        elif answer is not None:
            waiting += [(start, end) for start, end in ((low + answer + 1, high), (low, low + answer)) if start < end]
        elif high - low > _FEW_LINES:
            middle = (low + high) // 2
            waiting += [(middle, high), (low, middle)]
    return pa.concat_tables(tables), is_read


def _attempt(part: pa.Buffer, lines: int, schema: pa.Schema) -> pa.Table | int | None:
    """The rows of some lines; or the number of the line that pyarrow cannot parse; None: it is not known."""
    if not _is_text(part):
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(part),
            arrow_json.ReadOptions(use_threads=False, block_size=len(part) + 1),
            arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid as error:
        row = _ROW.search(str(error))
        return int(row[1]) if row is not None and int(row[1]) < lines else None
    is_exact = table.num_rows == lines and all(_is_exact(column.combine_chunks(), part) for column in table.columns)
    return table if is_exact else None


def _read_as(kind: pa.DataType) -> pa.DataType | None:
    """The type in which pyarrow reads a column; None: the column has a map, or a decimal that may overflow silently."""
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


def _typed(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The column in its type, and a mask of the rows with a text that does not fit, at any depth."""
    wrong = np.zeros(len(column), bool)
    if pa.types.is_struct(kind):
        children = []
        for place, member in enumerate(kind):
            child, misfits = _typed(column.field(place), member.type)
            children.append(child)
            wrong |= misfits
        validity = bools(flags_of(column.is_valid())).buffers()[1]
        return pa.Array.from_buffers(kind, len(column), [validity], children=children), wrong
    if pa.types.is_list(kind):
        items, misfits = _typed(column.flatten(), kind.value_type)
        lengths = numbers_of(pc.fill_null(pc.list_value_length(column), literal(0, pa.int32())), np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        wrong = np.diff(np.concatenate([[0], np.cumsum(misfits)])[offsets]) > 0
        validity = bools(flags_of(column.is_valid())).buffers()[1]
        return pa.Array.from_buffers(kind, len(column), [validity, pa.py_buffer(offsets)], children=[items]), wrong
    return from_text(column, kind) if pa.types.is_string(column.type) else (column, wrong)


def _is_exact(column: pa.Array, data: pa.Buffer) -> bool:
    """Whether the numbers of a column, at any depth, are those of the text."""
    if pa.types.is_struct(column.type):
        return all(_is_exact(column.field(place), data) for place in range(column.type.num_fields))
    if pa.types.is_list(column.type):
        return _is_exact(column.flatten(), data)
    if pa.types.is_decimal(column.type):
        try:
            column.validate(full=True)  # pyarrow does not check the number of digits
        except pa.ArrowInvalid:
            return False
    elif pa.types.is_floating(column.type):
        if pc.any(pc.is_inf(column)).as_py():
            return False
        zeros = column.filter(pc.equal(column, literal(0.0, column.type)))
        if not len(zeros):
            return True
        is_whole = np.signbit(zeros.to_numpy()).any() and _MINUS_ZERO.search(data) is not None
        return not is_whole and not _TINY.search(data)
    return True


def _is_text(data: pa.Buffer) -> bool:
    if len(data) >= 1 << 31:
        return False
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, data]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
