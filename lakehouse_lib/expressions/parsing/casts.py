"""Casts in SQL. A literal is converted, and a lossless cast or a cast between types of numbers becomes a node.

Only Spark evaluates other casts.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation

import numpy as np

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Assignment, Cast, Literal, Node
from lakehouse_lib.expressions.parsing.comparison import (
    FLOATING,
    INTEGRAL_BITS,
    NUMBER,
    TEMPORAL,
    describe,
    extremes,
    family,
)
from lakehouse_lib.expressions.parsing.times import parse_date, parse_timestamp
from lakehouse_lib.schema import PrimitiveType

_DAY = 86_400_000_000
_DOUBLE = PrimitiveType("double")
_INTEGER_TEXT = re.compile(r"[+-]?\d+", re.ASCII)
_EXACT = Context(prec=38)
#: Casts that lose nothing, by the type of the operand.
LOSSLESS = {
    "byte": {"short", "integer", "long", "float", "double", "string"},
    "short": {"integer", "long", "float", "double", "string"},
    "integer": {"long", "double", "string"},
    "long": {"string"},
    "float": {"double"},
    "date": {"timestamp", "timestamp_ntz", "string"},
    "timestamp": {"date"},
    "timestamp_ntz": {"date"},
}


def cast(operand: Node, kind: PrimitiveType, *, fails: bool = True) -> Node | None:
    """``CAST(operand AS kind)``; None if Arrow and Spark may differ, or a value could be lost.

    Args:
        fails: whether a value that is not valid for the type is an error; else it is NULL, as in TRY_CAST.
    """
    if isinstance(operand, Literal):
        return _cast_literal(operand, kind, fails=fails)
    if operand.type == kind:
        return operand
    if not isinstance(operand.type, PrimitiveType):
        return None
    if kind.type in LOSSLESS.get(operand.type.type, ()):
        return Cast(operand, kind)
    # Spark's ANSI cast of a number is that of an assignment. TRY_CAST gives NULL for a number that does not fit.
    is_exact = kind.decimal is None or operand.type.type not in FLOATING
    is_numeric = family(operand.type) == family(kind) == "number"
    return Assignment(operand, kind) if is_numeric and is_exact and fails else None


def number(text: str) -> Literal:
    """The literal for the text of a number: exact, or a double if it has an exponent."""
    if not NUMBER.fullmatch(text):
        raise InvalidPredicateError(f"{text[:50]!r} is not a number", hint="Write it as 1000, -0.5 or 1e3")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InvalidPredicateError(f"{text[:50]!r} is not a number", hint="Write it with fewer digits") from None
    if "e" in text.lower():
        return Literal(float(value), _DOUBLE)
    # The type only marks a number. The value is exact, and later takes the type of the expression it is compared with.
    return Literal(value, PrimitiveType("decimal(38,0)"))


def _cast_literal(literal: Literal, kind: PrimitiveType, *, fails: bool) -> Node | None:
    value = literal.value
    if value is None:
        return Literal(None, kind)
    if isinstance(value, str) and kind.type in TEMPORAL:
        by_wall_clock = kind.type == "timestamp_ntz"
        moment = parse_date(value) if kind.type == "date" else parse_timestamp(value, by_wall_clock=by_wall_clock)
        if moment is not None:
            return Literal(moment, kind)
        if not fails:  # Spark may read it, as it reads 2024-01-31 10 and +12024-01-31
            return None
        raise InvalidPredicateError(
            f"{value!r} is not a valid {kind.type}", hint="Write it as 2024-01-31 or 2024-01-31T23:59:59.123Z"
        )
    if literal.type.type in TEMPORAL and kind.type in TEMPORAL:
        return _cast_time(literal, kind)
    if kind.type == "string" and isinstance(value, str):
        return literal
    if family(kind) == "number" and isinstance(value, (str, Decimal, float)):
        return _cast_to_number(literal, kind, fails=fails)
    return None


def _cast_to_number(literal: Literal, kind: PrimitiveType, *, fails: bool) -> Literal | None:
    value = literal.value
    if isinstance(value, str):
        try:
            value = number(value.strip()).value
        except InvalidPredicateError:
            if fails:
                raise
            return None  # Spark may read it, as it reads 1.5d
    if kind.type in FLOATING:
        value = float(value)
        if kind.type == "float":
            with np.errstate(over="ignore"):
                value = float(np.float32(value))  # 0.1 as a float differs from the double 0.1
        return Literal(value, _DOUBLE)
    if kind.type in INTEGRAL_BITS and not _INTEGER_TEXT.fullmatch(str(literal.value).strip()):
        return None
    exact = Decimal(literal.value.strip() if isinstance(literal.value, str) else str(value))
    scale = kind.decimal[1] if kind.decimal is not None else 0
    if not exact.is_finite() or int(exact.as_tuple().exponent) < -scale:
        return None
    if not _is_in_range(exact, kind):
        if not fails:
            return Literal(None, kind)
        raise InvalidPredicateError(
            f"{describe(literal)} is out of the range of type {kind}",
            hint="Write a smaller number, or a wider type; TRY_CAST gives NULL",
        )
    # With all digits of its scale: the digits of results depend on them.
    return Literal(exact.quantize(Decimal((0, (1,), -scale)), context=_EXACT), PrimitiveType("decimal(38,0)"))


def _is_in_range(exact: Decimal, kind: PrimitiveType) -> bool:
    if kind.decimal is not None:
        return not exact or exact.adjusted() < kind.decimal[0] - kind.decimal[1]
    least, greatest = extremes(kind)
    return least <= exact <= greatest


def _cast_time(literal: Literal, kind: PrimitiveType) -> Literal | None:
    if literal.type == kind:
        return literal
    if kind.type == "date":
        return Literal(literal.value // _DAY, kind)  # the day in UTC, as for columns
    return Literal(literal.value * _DAY, kind) if literal.type.type == "date" else None
