"""Nodes for arithmetic whose results are equal in Arrow and Spark; only Spark evaluates other arithmetic, as SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from lakehouse_lib.expressions.ir import Arithmetic, Literal, Node, decimal_size
from lakehouse_lib.expressions.parsing.common_types import has_exact_types, type_in_spark
from lakehouse_lib.expressions.parsing.comparison import FLOATING, INTEGRAL_BITS, TEMPORAL, family
from lakehouse_lib.schema import PrimitiveType

#: The microseconds of a unit of time.
MICROS = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000}
MICROS["WEEK"] = 7 * MICROS["DAY"]
#: The months of a unit of time.
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_FAR = 4_000_000  # more days than the years 1 to 9999 have
_LONG = PrimitiveType("long")
_DOUBLE = PrimitiveType("double")
_MOST_DIGITS = 38
#: The digits of Arrow's widest decimal.
_MOST_WIDE_DIGITS = 76


def calculate(operator: str, left: Node, right: Node) -> Node | None:
    """``left operator right`` for ``+ - * / % DIV``, exact for integers and decimals and by IEEE 754 for doubles.

    None: only Spark can evaluate it.
    """
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _of_literals(operator, left.value, right.value)
    if operator == "/":
        return _divide(left, right)
    if _is_decimal(left, right) or _is_decimal(right, left):
        return _of_decimals(operator, left, right)
    first, second = _operand(left, right), _operand(right, left)
    if first is None or second is None:
        return None
    (a, a_type), (b, b_type) = first, second
    is_whole = a_type in INTEGRAL_BITS and b_type in INTEGRAL_BITS
    if operator in ("%", "DIV"):
        return Arithmetic(operator, a, b, _LONG) if is_whole else None
    return Arithmetic(operator, a, b, _LONG if is_whole else _DOUBLE)


def _of_literals(operator: str, left: Any, right: Any) -> Literal | None:
    """The result of ``+ - *`` of whole numbers, if it has 64 bits."""
    if operator not in ("+", "-", "*") or not all(isinstance(value, Decimal) for value in (left, right)):
        return None
    if not _is_integer(left) or not _is_integer(right):
        return None
    a, b = int(left), int(right)
    result = a + b if operator == "+" else a - b if operator == "-" else a * b
    is_long = -(1 << 63) <= result < 1 << 63
    return Literal(Decimal(result), PrimitiveType("decimal(38,0)")) if is_long else None


def _divide(left: Node, right: Node) -> Node | None:
    """The quotient: a decimal if an operand is a decimal and none a double, else a double."""
    kinds = [kind for kind in map(type_in_spark, (left, right)) if isinstance(kind, PrimitiveType)]
    if len(kinds) < 2 or not all(family(kind) == "number" for kind in kinds):
        return None
    has_float = any(kind.type in FLOATING for kind in kinds)
    if any(kind.decimal is not None for kind in kinds):
        if not has_float:
            return _quotient_of_decimals(left, right)
        if not any(isinstance(node, Literal) for node in (left, right)):
            return None  # a decimal that is not a literal, and a float
    return Arithmetic("/", _as_double(left), _as_double(right), _DOUBLE)


def _as_double(node: Node) -> Node:
    return Literal(float(node.value), _DOUBLE) if isinstance(node, Literal) else node


def _quotient_of_decimals(left: Node, right: Node) -> Node | None:
    """The quotient of two decimals, with the digits that Spark gives it; None if only Spark can evaluate it."""
    first, second = _decimal_operand(left), _decimal_operand(right)
    if first is None or second is None or not has_exact_types(left) or not has_exact_types(right):
        return None
    (a, (p, s)), (b, (q, t)) = first, second
    scale = max(6, s + q + 1)
    whole = p - s + t
    if whole + scale > _MOST_DIGITS:  # digits after the point are given up, down to six
        scale = max(_MOST_DIGITS - whole, min(scale, 6))
    if p - s + max(s, scale - q + t) + q + 1 > _MOST_WIDE_DIGITS:
        return None
    return Arithmetic("/", a, b, PrimitiveType(f"decimal({min(whole + scale, _MOST_DIGITS)},{scale})"))


def _is_decimal(node: Node, other: Node) -> bool:
    """Whether Spark calculates with decimals, because of a decimal column or a literal with a decimal point."""
    if isinstance(node, Literal):
        has_point = isinstance(node.value, Decimal) and not _is_integer(node.value)
        return has_point and isinstance(other.type, PrimitiveType) and other.type.type in INTEGRAL_BITS
    return isinstance(node.type, PrimitiveType) and node.type.decimal is not None


def _is_integer(number: Decimal) -> bool:
    """Whether Spark reads a literal as an integer. ``1.0`` is a decimal with one digit after the point."""
    return int(number.as_tuple().exponent) >= 0


def _of_decimals(operator: str, left: Node, right: Node) -> Node | None:
    """Arithmetic of decimals, integers and number literals; None if the exact result may have more than 38 digits."""
    first, second = _decimal_operand(left), _decimal_operand(right)
    if first is None or second is None or operator not in ("+", "-", "*"):
        return None
    (a, (p, s)), (b, (q, t)) = first, second
    if operator == "*":
        precision, scale = p + q + 1, s + t
    else:
        scale = max(s, t)
        precision = max(p - s, q - t) + scale + 1
    return Arithmetic(operator, a, b, PrimitiveType(f"decimal({precision},{scale})")) if precision <= 38 else None


def _decimal_operand(node: Node) -> tuple[Node, tuple[int, int]] | None:
    """The node with its digits and scale as Spark counts them."""
    kind = node.type
    if not isinstance(kind, PrimitiveType):
        return None
    if isinstance(node, Literal):
        if not isinstance(node.value, Decimal):
            return None
        exponent = int(node.value.as_tuple().exponent)
        scale = max(0, -exponent)
        digits = max(len(node.value.as_tuple().digits) + max(0, exponent), scale)
        if digits > 38:
            return None
        return Literal(node.value, PrimitiveType(f"decimal({digits},{scale})")), (digits, scale)
    size = decimal_size(kind)
    return None if size is None else (node, size)


def _operand(node: Node, other: Node) -> tuple[Node, str] | None:
    # Only integers and doubles are operands, because Arrow and Spark widen decimals by different rules.
    kind = node.type
    if not isinstance(kind, PrimitiveType):
        return None
    if isinstance(node, Literal):
        beside = other.type
        if not isinstance(beside, PrimitiveType) or not isinstance(node.value, (Decimal, float)):
            return None
        if beside.type in FLOATING:
            return Literal(float(node.value), _DOUBLE), "double"
        is_integer = isinstance(node.value, Decimal) and _is_integer(node.value)
        if beside.type in INTEGRAL_BITS and is_integer and -(1 << 63) < node.value < 1 << 63:
            return Literal(int(node.value), _LONG), "long"
        return None
    return (node, kind.type) if kind.type in INTEGRAL_BITS or kind.type in FLOATING else None


def shift(operand: Node, count: int, unit: str) -> Node | None:
    """A date or timestamp literal plus ``count`` units, such as ``SECOND``, ``DAY`` or ``MONTH``.

    None: only Spark can evaluate the sum.
    """
    if not isinstance(operand, Literal) or operand.type.type not in TEMPORAL or operand.value is None:
        return None
    date = operand.type.type == "date"
    if abs(count) > _FAR:
        return None
    a_day = MICROS["DAY"]
    if unit in MONTHS:
        days, clock = (operand.value, 0) if date else divmod(operand.value, a_day)
        try:
            moved = _add_months(days, count * MONTHS[unit])
        except (ValueError, OverflowError):  # outside the years 1 to 9999
            return None
        return Literal(moved if date else moved * a_day + clock, operand.type)
    step = MICROS.get(unit)
    if step is None or (date and step % a_day):
        return None
    return Literal(operand.value + count * (step // a_day if date else step), operand.type)


def _add_months(days: int, months: int) -> int:
    origin = dt.date(1970, 1, 1).toordinal()
    day = dt.date.fromordinal(days + origin)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    next_month = dt.date(year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
    last = (next_month - dt.timedelta(days=1)).day
    return dt.date(year, month + 1, min(day.day, last)).toordinal() - origin
