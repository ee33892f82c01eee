"""Cast columns of text to types, and find the cells that do not fit.

A cast runs over the whole column; if it fails, bisection finds the failing cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, flags_of, literal, null_scalar, strings

_INTEGER = r"^-?[0-9]+$"
_ZONED = r"[0-9]{2}:[0-9]{2}.*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


def type_name(data_type: pa.DataType) -> str:
    """The Delta name of a type, as error messages and quarantine reasons show it."""
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    names = {
        pa.int64(): "long",
        pa.int32(): "integer",
        pa.int16(): "short",
        pa.int8(): "byte",
        pa.float64(): "double",
        pa.float32(): "float",
        pa.bool_(): "boolean",
        pa.date32(): "date",
    }
    if data_type in names:
        return names[data_type]
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return "string"
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return "binary"
    return str(data_type)


def from_text(column: Any, data_type: pa.DataType) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Cast a string array to another type.

    Returns:
        the typed array, with NULL for NULL and for texts that do not fit, and a mask of the texts that do not fit.

    Booleans are ``true`` and ``false`` in any case, ``1`` and ``0``; dates ``YYYY-MM-DD``; timestamps ISO 8601. If the
    type has a zone, a timestamp without a zone is UTC. Text with spaces around the value fits only string and binary.
    Empty text is NULL in all other types.
    """
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return column.cast(data_type), np.zeros(len(column), bool)
    shortest, longest, lowest, highest = _extent(column)
    if not shortest:
        column = pc.if_else(pc.equal(pc.binary_length(column), 0), null_scalar(pa.string()), column)
    if pa.types.is_integer(data_type):
        if lowest <= ord("+") <= highest:  # Arrow's cast accepts no plus sign
            column = pc.replace_substring_regex(column, r"^\+([0-9])", r"\1")
        # Of texts of these characters, Arrow's cast accepts whole numbers only. Of other texts, it accepts 0x10, too.
        if lowest >= ord("+") and highest <= ord("9"):
            return cast_or_find(column, data_type)
        fits = pc.match_substring_regex(column, _INTEGER)
        typed, bad = cast_or_find(pc.if_else(fits, column, null_scalar(column.type)), data_type)
        return typed, bad | mask(pc.invert(fits))
    if pa.types.is_timestamp(data_type) and data_type.tz:
        zoned = pc.match_substring_regex(column, _ZONED)
        with_zone, bad_zoned = cast_or_find(pc.if_else(zoned, column, null_scalar(column.type)), data_type)
        plain, bad_plain = cast_or_find(
            pc.if_else(zoned, null_scalar(column.type), column), pa.timestamp(data_type.unit)
        )
        return pc.coalesce(with_zone, plain.cast(data_type)), bad_zoned | bad_plain
    typed, bad = cast_or_find(column, data_type)
    # A decimal with ``scale`` digits after the point may have more than the 38 digits that 128 bits hold.
    if pa.types.is_decimal(data_type) and (longest + data_type.scale > 38 or highest >= ord("E")):
        other = _is_another_number(column, typed)
        return pc.if_else(bools(other), null_scalar(data_type), typed), bad | other
    if pa.types.is_floating(data_type):
        beyond = _is_beyond_floats(column, typed)
        return pc.if_else(bools(beyond), null_scalar(data_type), typed), bad | beyond
    return typed, bad


def _extent(texts: Any) -> tuple[int, int, int, int]:
    """The bytes of the shortest (null counts as 0) and of the longest text, and the lowest and the highest byte."""
    if not len(texts):
        return 0, 0, 0, 0
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    lengths = np.diff(ends)
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.zeros(0, np.uint8)
    if not len(content):
        return 0, 0, 0, 0
    return int(lengths.min()), int(lengths.max()), int(content.min()), int(content.max())


def cast_or_find(column: Any, data_type: pa.DataType) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Cast an array without loss; cells that cannot be cast are NULL in the result and True in the mask."""
    bad = np.zeros(len(column), bool)
    try:
        return column.cast(data_type), bad
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        _find(column, data_type, 0, bad)
        return pc.if_else(bools(bad), null_scalar(column.type), column).cast(data_type), bad


def decode_texts(column: Any) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Bytes as text, with replacement characters for bytes that are not UTF-8, and a mask of those cells."""
    try:
        return column.cast(pa.string()), np.zeros(len(column), bool)
    except pa.ArrowInvalid:
        values = column.to_pylist()
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
        wrong = [text is not None and text.encode() != value for text, value in zip(texts, values, strict=True)]
        return strings(texts), np.array(wrong, bool)


def mask(condition: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """An Arrow boolean array as a NumPy mask; NULL is False."""
    return flags_of(condition)


def _is_beyond_floats(texts: Any, floats: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of the texts that overflow to infinity (1e400 as a double) or underflow to zero (1e-400)."""
    is_infinite, is_zero = pc.is_inf(floats), pc.equal(floats, literal(0.0, floats.type))
    if not pc.any(pc.or_(is_infinite, is_zero)).as_py():
        return np.zeros(len(floats), bool)
    overflow = pc.and_(is_infinite, pc.match_substring_regex(texts, "[0-9]"))
    return mask(pc.or_(overflow, pc.and_(is_zero, pc.match_substring_regex(texts, "^[^eE]*[1-9]"))))


def _is_another_number(texts: Any, decimals: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of the texts that Arrow has cast to another number: it computes decimals modulo 2^128 without an error.

    A cast to a decimal of 256 bits would not help, because it wraps around, too. A wrapped number differs from the
    number in the text by at least three times the wrapped number. A comparison as doubles shows such a difference.
    """
    cast_numbers = decimals.cast(pa.float64())
    text_numbers = pc.if_else(cast_numbers.is_valid(), pc.ascii_ltrim(texts, "+"), null_scalar(pa.string())).cast(
        pa.float64()
    )  # the cast to a double takes no +
    return mask(pc.greater(pc.abs(pc.subtract(text_numbers, cast_numbers)), pc.abs(cast_numbers)))


def _find(column: Any, data_type: pa.DataType, start: int, bad: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    if len(column) == 1:
        bad[start] = True
        return
    middle = len(column) // 2
    for half, offset in ((column.slice(0, middle), start), (column.slice(middle), start + middle)):
        try:
            half.cast(data_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            _find(half, data_type, offset, bad)
