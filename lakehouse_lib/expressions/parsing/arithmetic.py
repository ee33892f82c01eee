"""Nodes for arithmetic whose results are equal in Arrow and Spark; only Spark evaluates other arithmetic, as SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from lakehouse_lib.expressions.ir import Arithmetic, Literal, Node
from lakehouse_lib.expressions.parsing.comparison import FLOATING, INTEGRAL_BITS, TEMPORAL
from lakehouse_lib.schema import PrimitiveType

_MICROS = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000}
_MICROS["WEEK"] = 7 * _MICROS["DAY"]
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_FAR = 4_000_000  # more days than the years 1 to 9999 have
_LONG = PrimitiveType("long")
_DOUBLE = PrimitiveType("double")
#: The digits of an integer as a decimal, in Spark.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def calculate(operator: str, left: Node, right: Node) -> Node | None:
    """``left operator right`` for ``+ - * / %``, exact for integers and decimals and by IEEE 754 for doubles.

    None: only Spark can evaluate it.
    """
    if isinstance(left, Literal) and isinstance(right, Literal):
        return None
    if operator == "/":
        return _divide(left, right)
    if _is_decimal(left, right) or _is_decimal(right, left):
        return _of_decimals(operator, left, right)
    first, second = _operand(left, right), _operand(right, left)
    if first is None or second is None:
        return None
    (a, a_type), (b, b_type) = first, second
    if operator == "%":
        whole = isinstance(b, Literal) and b.value and a_type in INTEGRAL_BITS and b_type in INTEGRAL_BITS
        return Arithmetic("%", a, b, _LONG) if whole else None
    if a_type in FLOATING or b_type in FLOATING:
        return Arithmetic(operator, a, b, _DOUBLE)
    return Arithmetic(operator, a, b, _LONG)


def _divide(left: Node, right: Node) -> Node | None:
    """The quotient of an integer or double column and a literal other than 0; Spark divides both as doubles.

    Spark divides an integer by a literal with a fraction as decimals, and fails where the divisor is 0.
    """
    kind = left.type
    if not isinstance(kind, PrimitiveType) or not isinstance(right, Literal) or not right.value:
        return None
    value = right.value
    if not isinstance(value, Decimal | float):
        return None
    exact = isinstance(value, float) or (value == value.to_integral_value() and value.as_tuple().exponent == 0)
    if kind.type in FLOATING or (kind.type in INTEGRAL_BITS and exact):
        return Arithmetic("/", left, Literal(float(value), _DOUBLE), _DOUBLE)
    return None


def _is_decimal(node: Node, other: Node) -> bool:
    """Whether Spark calculates with decimals, because of a decimal column or a literal with a fraction."""
    if isinstance(node, Literal):
        has_fraction = isinstance(node.value, Decimal) and node.value != node.value.to_integral_value()
        return has_fraction and isinstance(other.type, PrimitiveType) and other.type.type in INTEGRAL_BITS
    return isinstance(node.type, PrimitiveType) and node.type.decimal is not None


def _of_decimals(operator: str, left: Node, right: Node) -> Node | None:
    """Arithmetic of decimals, integers and number literals; None if the exact result may have more than 38 digits."""
    first, second = _decimal_operand(left), _decimal_operand(right)
    if first is None or second is None or operator == "%":
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
    if kind.decimal is not None:
        return node, kind.decimal
    whole = _DIGITS.get(kind.type)
    return None if whole is None else (node, (whole, 0))


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
        whole = isinstance(node.value, Decimal) and node.value == node.value.to_integral_value()
        if beside.type in INTEGRAL_BITS and whole and -(1 << 63) < node.value < 1 << 63:
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
    a_day = _MICROS["DAY"]
    if unit in _MONTHS:
        days, clock = (operand.value, 0) if date else divmod(operand.value, a_day)
        try:
            moved = _add_months(days, count * _MONTHS[unit])
        except (ValueError, OverflowError):  # outside the years 1 to 9999
            return None
        return Literal(moved if date else moved * a_day + clock, operand.type)
    step = _MICROS.get(unit)
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
