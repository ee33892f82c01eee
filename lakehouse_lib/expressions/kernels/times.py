"""Calculations with days and times in the proleptic Gregorian calendar, in UTC, as in Spark.

NumPy calculates them, because Arrow's calendar ends with the year 32767.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import literal, null_scalar, numbers_of
from lakehouse_lib.expressions.ir import Function, Literal

_DAY = 86_400_000_000
_MICROS = {"HOUR": _DAY // 24, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
Numbers = NDArray[np.int64]


def truncated(node: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``trunc(day, unit)`` or ``date_trunc(time, unit)``: the start of the year, month, hour and so on."""
    values, unit = arguments[0], node.arguments[1]
    assert isinstance(unit, Literal)
    if pa.types.is_date32(values.type):
        return _with_numbers(values, _first_days(_days(values), unit.value))
    micros = _micros(values)
    step = _MICROS.get(unit.value)
    if step is not None:
        return _with_numbers(values, micros - micros % step)
    return _with_numbers(values, _first_days(micros // _DAY, unit.value) * _DAY)


def months_added(_: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``add_months(value, months)`` of days or times. The last day of a month is the latest day."""
    values, counts = arguments
    count = numbers_of(pc.fill_null(counts.cast(pa.int32()), literal(0, pa.int32())), np.int32).astype(np.int64)
    is_date = pa.types.is_date32(values.type)
    days, clock = (_days(values), 0) if is_date else np.divmod(_micros(values), _DAY)
    months = _months(days)
    last = _first_of_month(months + count + 1) - 1
    moved = np.minimum(_first_of_month(months + count) + days - _first_of_month(months), last)
    result = _with_numbers(values, moved if is_date else moved * _DAY + clock)
    return pc.if_else(counts.is_valid(), result, null_scalar(result.type))


def last_day(_: Function, arguments: Sequence[pa.Array]) -> pa.Array:
    """``last_day(day)``: the last day of the month."""
    return _with_numbers(arguments[0], _first_of_month(_months(_days(arguments[0])) + 1) - 1)


def _first_days(days: Numbers, unit: str) -> Numbers:
    """The first day of the week, month, quarter or year."""
    if unit == "DAY":
        return days
    if unit == "WEEK":
        return days - (days + 3) % 7  # 1970-01-01 is a Thursday, and a week starts on Monday
    months = _months(days)
    return _first_of_month(months - months % _MONTHS[unit])


def _months(days: Numbers) -> Numbers:
    """Months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_of_month(months: Numbers) -> Numbers:
    """Days since 1970 of the first day of a month."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _days(values: pa.Array) -> Numbers:
    return numbers_of(values, np.int32).astype(np.int64)


def _micros(values: pa.Array) -> Numbers:
    return numbers_of(values, np.int64)


def _with_numbers(values: pa.Array, numbers: Numbers) -> pa.Array:
    """The numbers in the type of ``values``, null where a value is null.

    Raises:
        pa.ArrowInvalid: a day is out of the range of dates.
    """
    null = np.asarray(values.is_null())
    if pa.types.is_date32(values.type):
        return pa.array(numbers, pa.int64(), mask=null).cast(pa.int32()).cast(values.type)
    return pa.array(numbers, pa.int64(), mask=null).cast(pa.timestamp("us")).cast(values.type)
