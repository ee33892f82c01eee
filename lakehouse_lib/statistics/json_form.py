"""Parse the JSON of statistics into Arrow tables of the requested fields, and edit the JSON without parsing its values.

Statistics are hints, and other writers may have made them: a value that cannot be read is null and never an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.protocol.partition_values import to_typed
from lakehouse_lib.schema import PrimitiveType

_ROWS_A_PARSE = 65_536
_ROWS_BY_HAND = 16
_BLOCK_BYTES = 1 << 22
_NOTHING, _LINE_BREAK = literal("", pa.string()), literal("\n", pa.string())
_AS_TEXT = ("string", "date", "timestamp", "timestamp_ntz")


def json_rows(stats: pa.ChunkedArray, schema: pa.Schema) -> Iterator[pa.Table]:
    """The statistics of files, one row for each file, in their order.

    Args:
        stats: the column ``stats`` of a files table.
        schema: the fields to read; dates and timestamps as strings (``json_type``).
    """
    for text in _blocks(stats):
        yield _parse(text, schema)


def with_loose_bounds(stats: str | None, rows: int) -> str:
    """The statistics of a file after a deletion vector has deleted rows: the same bounds, with ``tightBounds`` false.

    See PROTOCOL.md, section Per-file Statistics. Every other token is copied as it is written, because parsing could
    change decimals.

    Args:
        stats: the statistics without the vector; None and text that is not a JSON object have no bounds.
        rows: the number of rows in the file, including deleted ones.
    """
    tokens = {**_tokens(stats or ""), "numRecords": str(rows), "tightBounds": "false"}
    return _object(tokens)


def with_missing(stats: str | None, others: str) -> str:
    """The statistics of a file, and the members of ``others`` that they lack. Tokens are copied as they are written.

    Args:
        stats: None and text that is not a JSON object have no statistics.
        others: statistics of the same file as JSON.
    """
    tokens = _tokens(stats or "")
    for key, token in _tokens(others).items():
        own = tokens.get(key, "null")
        tokens[key] = token if own == "null" else with_missing(own, token) if token.startswith("{") else own
    return _object(tokens)


def _object(tokens: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{token}" for key, token in tokens.items()) + "}"


def _tokens(text: str) -> dict[str, str]:
    """The members of a JSON object with their values as text; empty if the text is not an object."""
    decoder, tokens, at = json.JSONDecoder(), dict[str, str](), 0

    def after(pattern: str, at: int) -> int:
        match = re.compile(rf"\s*{pattern}\s*").match(text, at)
        if match is None:
            raise ValueError(f"expected {pattern} at {at}")
        return match.end()

    try:
        at = after("{", at)
        while not text.startswith("}", at):
            key, at = decoder.raw_decode(text, at)
            start = after(":", at)
            _, at = decoder.raw_decode(text, start)
            tokens[str(key)] = text[start:at]
            at = after("(?:,|(?=}))", at)
    except (ValueError, RecursionError):
        return {}
    return tokens


def json_type(kind: PrimitiveType) -> pa.DataType:
    """The Arrow type of values of ``kind`` after they are parsed from JSON."""
    return pa.string() if kind.type in _AS_TEXT else kind.to_arrow()


def from_text(text: pa.Array, kind: PrimitiveType) -> pa.Array:
    """Dates and timestamps from their text in JSON; null if the text is not valid."""
    return _or_null(text, lambda texts: to_typed(texts, kind), kind.to_arrow())


def _blocks(stats: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in stats.chunks:
        for start in range(0, len(chunk), _ROWS_A_PARSE):
            text = chunk.slice(start, _ROWS_A_PARSE).cast(pa.string())
            if not _is_one_object_a_row(text):
                # Arrow reads one object from each line: an empty row or a line break would shift all later rows.
                objects = pc.fill_null(pc.match_substring_regex(text, r"\A\s*\{"), literal(False, pa.bool_()))
                text = pc.if_else(objects, text, literal("{}", pa.string()))
                for line_break in ("\n", "\r"):
                    if pc.any(pc.match_substring(text, line_break)).as_py():
                        text = pc.replace_substring(text, line_break, " ")
            yield text


def _is_one_object_a_row(text: pa.Array) -> bool:
    """Whether every row starts with a brace and has no line break; a cheap test on the bytes."""
    if text.null_count or not len(text):
        return False
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    if (ends[:-1] == ends[1:]).any():
        return False
    characters = np.frombuffer(data, np.uint8)
    inside = characters[ends[0] : ends[-1]]
    braced = (characters[ends[:-1]] == ord("{")).all()
    return bool(braced and not (inside == ord("\n")).any() and not (inside == ord("\r")).any())


def _parse(text: pa.Array, schema: pa.Schema) -> pa.Table:
    """The rows of ``text``. Rows that Arrow cannot parse are found by halving."""
    try:
        lines = pc.binary_join_element_wise(text, _NOTHING, _LINE_BREAK)
        body = lines.buffers()[2]
        size = pc.sum(pc.binary_length(lines)).as_py()
        # Arrow allocates whole blocks: with a block of 4 MiB, parsing a few rows takes five times as long.
        block_size = min(size + 1, max(_BLOCK_BYTES, 2 * pc.max(pc.binary_length(lines)).as_py()))
        table = pj.read_json(
            pa.BufferReader(body.slice(0, size)),
            # A single block is parsed by this thread: to wake others takes longer than to parse a few rows.
            read_options=pj.ReadOptions(use_threads=size > block_size, block_size=block_size),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        if table.num_rows == len(text):
            return table.combine_chunks()
    except pa.ArrowException:
        pass  # a row is not valid: see below
    if len(text) <= _ROWS_BY_HAND:
        return pa.Table.from_pylist([_row(line, schema) for line in text.to_pylist()], schema=schema)
    middle = len(text) // 2
    halves = [_parse(text.slice(0, middle), schema), _parse(text.slice(middle), schema)]
    return pa.concat_tables(halves).combine_chunks()


def _row(text: str, schema: pa.Schema) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}
    return {field.name: _fit(value.get(field.name), field.type) for field in schema}


def _fit(value: Any, kind: pa.DataType) -> Any:
    """``value`` if it is a value of the Arrow type ``kind``, else None."""
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return None
        inner = [kind.field(i) for i in range(kind.num_fields)]
        return {field.name: _fit(value.get(field.name), field.type) for field in inner}
    python_types: tuple[type, ...] = (str,)
    if pa.types.is_boolean(kind):
        python_types = (bool,)
    elif pa.types.is_integer(kind):
        python_types = (int,)
    elif not pa.types.is_string(kind):
        python_types = (int, Decimal)
    if type(value) not in python_types:
        return None
    try:
        return pa.scalar(float(value) if pa.types.is_floating(kind) else value, kind).as_py()
    except (pa.ArrowException, OverflowError, ValueError):
        return None


def _or_null(text: pa.Array, read: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> pa.Array:
    try:
        return read(text)
    except (LogCorruptedError, pa.ArrowException):
        if len(text) <= 1:
            return pa.nulls(len(text), kind)
    middle = len(text) // 2
    return pa.concat_arrays([_or_null(text.slice(0, middle), read, kind), _or_null(text.slice(middle), read, kind)])
