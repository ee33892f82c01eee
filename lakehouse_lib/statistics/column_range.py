"""The range of a column's values in a data file, and statistics as JSON from such ranges.

The bounds hold for every reader: strings are truncated as in the protocol, timestamps are rounded outwards to
milliseconds, decimals are exact JSON numbers, and a bound of 0.0 or -0.0 covers both.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.statistics.columns import ColumnPath
from lakehouse_lib.statistics.floats import FloatRange, float_range

#: Strings are truncated to this many characters, unless the caller says otherwise.
STRING_PREFIX = 32

INTEGRAL = ("byte", "short", "integer", "long")
FLOATING = ("float", "double")
_TIMES = ("timestamp", "timestamp_ntz")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic on UTC and on zoneless values alike


@dataclass
class ColumnRange:
    """The least and the greatest value of a column, and the number of its nulls.

    Attributes:
        low, high: an int (days of a date, microseconds of a timestamp), a float, a str or a Decimal; None: the column
            has no value, or has no bounds.
        nulls: None: unknown.
        is_known: False: the bounds may be wrong.
        is_max_certain: False: the column may have a value greater than ``high``, such as NaN.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = 0
    is_known: bool = True
    is_max_certain: bool = True

    def union(self, other: ColumnRange) -> ColumnRange:
        """The range of the rows of both ranges."""
        sides = (self, other)
        return ColumnRange(
            min((side.low for side in sides if side.low is not None), default=None),
            max((side.high for side in sides if side.high is not None), default=None),
            None if self.nulls is None or other.nulls is None else self.nulls + other.nulls,
            self.is_known and other.is_known,
            self.is_max_certain and other.is_max_certain,
        )


def has_bounds(kind: PrimitiveType) -> bool:
    """Whether columns of this type have bounds; booleans and binary columns have a null count only."""
    return kind.type in (*INTEGRAL, *FLOATING, *_TIMES, "string", "date") or kind.decimal is not None


def of_floats(floats: FloatRange) -> ColumnRange:
    """The range of a floating-point column. ``high`` ignores NaN, although NaN is the greatest number in SQL."""
    return ColumnRange(floats.low, floats.high, floats.nulls, is_max_certain=not floats.has_nan)


def of_values(kind: PrimitiveType, values: pa.ChunkedArray) -> ColumnRange:
    """The range of values in the Arrow type of ``kind``."""
    if kind.type in FLOATING:
        return of_floats(float_range(values))
    if not has_bounds(kind):
        return ColumnRange(nulls=values.null_count)
    if kind.type == "date" or kind.type in _TIMES:
        values = values.cast(pa.int32() if kind.type == "date" else pa.int64())
    bounds = pc.min_max(values)
    return ColumnRange(bounds["min"].as_py(), bounds["max"].as_py(), values.null_count)


def stats_text(
    rows: int, ranges: Mapping[ColumnPath, tuple[PrimitiveType, ColumnRange]], string_prefix: int = STRING_PREFIX
) -> str:
    """The ``stats`` of a file: JSON with numRecords, minValues, maxValues and nullCount.

    A bound that cannot be written (infinite, a year after 9999) is left out.

    Args:
        rows: the number of rows in the file.
        ranges: the type and the range of each column, by path.
        string_prefix: the number of characters to which strings are truncated.
    """
    lows: dict[ColumnPath, str] = {}
    highs: dict[ColumnPath, str] = {}
    nulls: dict[ColumnPath, str] = {}
    for path, (kind, values) in ranges.items():
        if values.nulls is not None:
            nulls[path] = str(values.nulls)
        if not values.is_known or values.low is None:
            continue
        low = _bound_text(kind, values.low, string_prefix, upper=False)
        high = _bound_text(kind, values.high, string_prefix, upper=True)
        if low is not None:
            lows[path] = low
        if high is not None and values.is_max_certain:
            highs[path] = high
    body = {"minValues": lows, "maxValues": highs, "nullCount": nulls}
    parts = [f'"numRecords":{rows}', *(f'"{key}":{_object(tokens)}' for key, tokens in body.items())]
    return "{" + ",".join(parts) + "}"


def _bound_text(kind: PrimitiveType, value: Any, string_prefix: int, *, upper: bool) -> str | None:
    """The JSON token of a bound of type ``kind``, or None if the bound may be wrong."""
    if kind.type in INTEGRAL:
        return str(value) if isinstance(value, int) else None
    if kind.type in FLOATING:
        if not isinstance(value, float) or not math.isfinite(value):
            return None
        return repr((0.0 if upper else -0.0) if value == 0 else value)
    if kind.decimal is not None:
        if isinstance(value, int):  # the file was written before the column was widened to a decimal
            return str(value)
        return format(value, "f") if isinstance(value, Decimal) else None
    if kind.type == "string":
        cut = _shorten_max(value, string_prefix) if upper else value[:string_prefix]
        return None if cut is None else json.dumps(cut, ensure_ascii=False)
    try:
        if kind.type == "date":
            return f'"{(_EPOCH + dt.timedelta(days=value)).date().isoformat()}"'
        if kind.type in _TIMES:
            milliseconds = -(-value // 1000) if upper else value // 1000
            text = (_EPOCH + dt.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
            return f'"{text}Z"' if kind.type == "timestamp" else f'"{text}"'
    except OverflowError:
        return None
    return None


def _shorten_max(value: str, prefix: int) -> str | None:
    """The max for a column whose greatest value is ``value``; None: no short text is greater than the value.

    A value of at most ``prefix`` characters is unchanged. A longer value is cut after ``prefix`` characters, and a
    tie-breaker makes the max greater than the value: U+007F if the next character is less than U+007F, else U+10FFFF. A
    next character that is itself U+10FFFF is kept, and the cut is after it. The result has at most twice as many
    characters.
    """
    if len(value) <= prefix:
        return value
    for end in range(prefix, min(len(value), 2 * prefix)):
        following = value[end]
        if following < "\x7f":
            return value[:end] + "\x7f"
        if following < "\U0010ffff":
            return value[:end] + "\U0010ffff"
    return None


def _object(tokens: dict[ColumnPath, str]) -> str:
    tree: dict[str, Any] = {}
    for path, token in tokens.items():
        node = tree
        for part in path[:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = token
    return _render(tree)


def _render(node: dict[str, Any] | str) -> str:
    if isinstance(node, str):
        return node
    inner = (f"{json.dumps(name, ensure_ascii=False)}:{_render(child)}" for name, child in node.items())
    return "{" + ",".join(inner) + "}"
