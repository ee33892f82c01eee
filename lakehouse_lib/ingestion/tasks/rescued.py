"""The column ``_rescued``: in each row, a JSON object with the texts that do not fit the schema, by column.

A *member* of this object is text such as ``"price":"free"``. Each column has an array with its member for each row,
which is NULL if the row has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, literal, null_scalar
from lakehouse_lib.ingestion.sources.blocks import TextBlock

#: The characters that JSON forbids in a string, and their escapes. Backslashes come first: other escapes contain them.
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROL = "[\x00-\x1f]"


def members(name: str, texts: pa.Array, chosen: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Array:
    """The member of a column for each row, such as ``"price":"free"``; NULL in rows without one.

    Args:
        chosen: a mask of the rows that have a member; None: all rows whose text is not NULL.
    """
    if chosen is not None:
        texts = pc.if_else(bools(chosen), texts, null_scalar(pa.string()))
    for character, escape in _ESCAPES:
        texts = pc.replace_substring(texts, character, escape)
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        for code in range(0x20):
            texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    start = literal(f'{json.dumps(name, ensure_ascii=False)}:"', pa.string())
    return pc.binary_join_element_wise(start, texts, literal('"', pa.string()), literal("", pa.string()))


def json_objects(parts: Sequence[pa.Array], rows: int) -> pa.Array:
    """The JSON object of each row, with all its members; NULL in rows without members."""
    if not parts:
        return pa.nulls(rows, pa.string())
    comma, empty = literal(",", pa.string()), literal("", pa.string())
    # With null_handling="skip", pyarrow returns no element for a row whose inputs are all NULL.
    after_comma = [pc.fill_null(pc.binary_join_element_wise(comma, part, empty), empty) for part in parts]
    joined = pc.ascii_ltrim(pc.binary_join_element_wise(*after_comma, empty), ",")
    objects = pc.binary_join_element_wise(literal("{", pa.string()), joined, literal("}", pa.string()), empty)
    return pc.if_else(pc.equal(joined, empty), null_scalar(pa.string()), objects)


def with_columns_of(schema: pa.Schema, own: Sequence[str], parse: Callable[[], TextBlock]) -> TextBlock:
    """A block of a file, with the columns of a schema. A column that the file lacks is NULL.

    Texts of columns that the schema lacks are rescued.

    Args:
        own: the columns of the file.
        parse: returns the block with the columns ``own``.
    """
    block = parse()
    by_name = dict(zip(own, block.texts, strict=True))
    rows = len(block.texts[0])
    texts = [by_name[name] if name in by_name else pa.nulls(rows, pa.string()) for name in schema.names]
    rescued = [members(name, text) for name, text in by_name.items() if name not in schema.names]
    return TextBlock(texts, block.lines, block.checks, block.faulty, block.line_count, tuple(rescued))
