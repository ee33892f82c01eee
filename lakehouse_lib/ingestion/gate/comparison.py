"""Comparisons of a column with literals, as conditions with the semantics of Spark in ANSI mode.

Spark casts both sides to a common type. If that type is double, an integer or decimal column may lose digits. Here, no
value of the column is cast: integers, decimals, dates and times are whole numbers, and ``split_at_literal`` finds the
whole numbers whose casts are less than the literal, equal to it, and greater.

Literals are int, Decimal (both exact), float (a double), str, bool, date and datetime.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.values import column as array_of
from lakehouse_lib.ingestion.gate.arguments import Column, NotTranslatedError
from lakehouse_lib.ingestion.gate.condition import Condition, Not, OneOf, Range

_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?\Z", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall clock
_DAY = 86_400_000_000
_LONG = 2**63
#: The decimal digits of Spark's integer types, as ``DecimalType.forType`` has them.
DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_MOST_DIGITS = 38
#: A double that is greater than every number of an integer or decimal type.
_BEYOND = 1e39


def compare(column: Column, operator: str, value: Any) -> Condition:
    """``column operator value``; the operator is ==, !=, <, <=, > or >=."""
    if operator == "!=":
        return Not(compare(column, "==", value))
    if operator == "==":
        return between(column, value, value)
    low = value if operator in (">", ">=") else None
    high = value if operator in ("<", "<=") else None
    return between(column, low, high, strict_low=operator == ">", strict_high=operator == "<")


def between(column: Column, low: Any, high: Any, *, strict_low: bool = False, strict_high: bool = False) -> Condition:
    """Whether a column is between two literals of one kind; None: no limit at this end."""
    kind = column.kind
    if is_whole_number(kind):
        first = None if low is None else split_at_literal(low, kind)[1 if strict_low else 0]
        last = None if high is None else split_at_literal(high, kind)[0 if strict_high else 1] - 1
        return _whole_range(column, first, last)
    if pa.types.is_boolean(kind) and (low is None or low is not high):
        raise NotTranslatedError("booleans have no order")
    ends = [None if value is None else _single(value, kind) for value in (low, high)]
    return Range(column.name, ends[0], ends[1], strict_low, strict_high)


def among(column: Column, values: Sequence[Any]) -> Condition:
    """Whether a column is among literals."""
    if len({_family(value) for value in values}) > 1:
        raise NotTranslatedError("the values have several types")
    if any(isinstance(value, float) for value in values):
        values = [_double(value) for value in values]
    kind = column.kind
    if is_whole_number(kind):
        least, most = _limits(kind)
        numbers = {number for value in values for number in _equals(value, kind) if least <= number <= most}
        return OneOf(column.name, whole_numbers(sorted(numbers), kind))
    if pa.types.is_floating(kind):
        doubles = {_double(value) for value in values}
        if 0.0 in doubles:
            doubles -= {0.0}
            zeros = [0.0, -0.0]
        else:
            zeros = []
        numbers_of_kind = [number for number in doubles if pa.types.is_float64(kind) or _is_float(number)]
        return OneOf(column.name, array_of([*sorted(numbers_of_kind), *zeros], kind))
    for value in values:
        _single(value, kind)
    return OneOf(column.name, array_of(list(dict.fromkeys(values)), kind))


def split_at_literal(value: Any, kind: pa.DataType) -> tuple[int, int]:
    """Split the whole numbers of a type at a literal.

    Returns:
        The first number that is not less than the literal, and the first that is greater.
    """
    if pa.types.is_temporal(kind):
        number = _moment(value, kind)
        return number, number + 1
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    if isinstance(value, float):
        return _cut_double(value, scale)
    _check_digits(value, kind)
    exact = Fraction(value) * 10**scale
    return math.ceil(exact), math.floor(exact) + 1


def is_whole_number(kind: pa.DataType) -> bool:
    """Whether the values of a type are whole numbers in its buffer."""
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
    )


def whole_numbers(numbers: Sequence[int], kind: pa.DataType) -> pa.Array:
    """An array of whole numbers, in a type of ``is_whole_number``."""
    width = kind.bit_width // 8
    content = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(content)])


def _whole_range(column: Column, first: int | None, last: int | None) -> Condition:
    least, most = _limits(column.kind)
    low, high = max(least, least if first is None else first), min(most, most if last is None else last)
    nothing = OneOf(column.name, whole_numbers([], column.kind))
    if low > high:
        return nothing
    if low == least and high == most:
        return Not(nothing)
    ends = [whole_numbers([number], column.kind) for number in (low, high)]
    return Range(column.name, None if low == least else ends[0], None if high == most else ends[1])


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return -most, most
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def _cut_double(value: float, scale: int) -> tuple[int, int]:
    value = max(-_BEYOND, min(value, _BEYOND))  # the largest double has no double after it
    power = 10**scale
    below, above = (Fraction(math.nextafter(value, end)) * power for end in (-math.inf, math.inf))
    middle = Fraction(value) * power
    first = _first(math.floor(below), math.ceil(middle), lambda number: number / power >= value)
    after = _first(math.floor(middle), math.ceil(above), lambda number: number / power > value)
    return first, after


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number for which a monotone condition holds. It holds for ``high``, and not for ``low``."""
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _equals(value: Any, kind: pa.DataType) -> range:
    first, after = split_at_literal(value, kind)
    if after - first > 1:
        raise NotTranslatedError(f"several values of the column are {value} as a double")
    return range(first, after)


def _check_digits(value: Any, kind: pa.DataType) -> None:
    """Refuse an exact literal if no decimal type holds it and the column's values; Spark would round one of them."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise NotTranslatedError(f"a {type(value).__name__} is compared with a number")
    if isinstance(value, int) and not -_LONG <= value < _LONG:
        raise NotTranslatedError("an integer has more than 64 bits")
    if isinstance(value, int) and not pa.types.is_decimal(kind):
        return
    if isinstance(value, int):
        digits, scale = DIGITS[32 if -(2**31) <= value < 2**31 else 64], 0
    else:
        exponent = int(value.as_tuple().exponent)
        scale = max(0, -exponent)
        digits = max(len(value.as_tuple().digits) + exponent, 1)
    if pa.types.is_decimal(kind):
        own_digits, own_scale = kind.precision - kind.scale, kind.scale
    else:
        own_digits, own_scale = DIGITS[kind.bit_width], 0
    if max(digits, own_digits) + max(scale, own_scale) > _MOST_DIGITS:
        raise NotTranslatedError("no decimal of 38 digits holds the literal and the column's values")


def _moment(value: Any, kind: pa.DataType) -> int:
    """Days or microseconds since 1970; a time without zone is in UTC."""
    is_date = pa.types.is_date(kind)
    try:
        if isinstance(value, str) and _DATE.match(value):
            value = dt.date.fromisoformat(value)
        elif isinstance(value, str) and _TIME.match(value) and not is_date:
            return (dt.datetime.fromisoformat(value) - _EPOCH) // dt.timedelta(microseconds=1)
    except ValueError:
        raise NotTranslatedError(f"{value!r} is not a date") from None
    if isinstance(value, dt.datetime) and not is_date and (value.tzinfo is None or kind.tz is not None):
        wall_clock = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return (wall_clock - _EPOCH) // dt.timedelta(microseconds=1)
    if type(value) is not dt.date:
        raise NotTranslatedError(f"{value!r} is compared with a {'date' if is_date else 'timestamp'}")
    days = value.toordinal() - _EPOCH.toordinal()
    return days if is_date else days * _DAY


def _single(value: Any, kind: pa.DataType) -> pa.Array:
    """A literal in the type in which it is compared with a column whose values are not whole numbers."""
    if pa.types.is_floating(kind):
        return array_of([_double(value)], pa.float64())
    if (pa.types.is_string(kind) and isinstance(value, str)) or (pa.types.is_boolean(kind) and isinstance(value, bool)):
        return array_of([value], kind)
    raise NotTranslatedError(f"a {type(value).__name__} is compared with a column of the type {kind}")


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise NotTranslatedError(f"a {type(value).__name__} is compared with a number")
    if isinstance(value, int) and abs(value) > 2**53:
        raise NotTranslatedError("an integer is compared as a double, which cannot hold it")
    return float(value)


def _is_float(number: float) -> bool:
    """Whether a double is also a float of 32 bits."""
    try:
        return bool(struct.unpack("f", struct.pack("f", number))[0] == number)
    except OverflowError:
        return False


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float | Decimal) else type(value).__name__
