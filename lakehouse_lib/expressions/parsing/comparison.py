"""Comparison of an expression with literals: a literal becomes a value of the expression's type, exactly.

An integer column is not compared with a rounded 1.5: ``x < 1.5`` becomes ``x <= 1``, and ``x = 1.5`` is false (NULL
where x is NULL). For this, the values of a type are the points of a grid: integers, decimals of a scale, dates (days)
and timestamps (microseconds). Times without a zone are in UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import (
    BOOLEAN,
    FALSE,
    TRUE,
    UNKNOWN,
    Column,
    Comparison,
    In,
    Literal,
    Node,
    Not,
    Opaque,
    conjunction,
    disjunction,
    false_unless_null,
    is_null,
    true_unless_null,
)
from lakehouse_lib.expressions.parsing.preimage import is_widening, preimage_of
from lakehouse_lib.expressions.parsing.times import parse_date, parse_timestamp
from lakehouse_lib.schema import DataType, PrimitiveType

INTEGRAL_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
FLOATING = frozenset(["float", "double"])
TEMPORAL = frozenset(["date", "timestamp", "timestamp_ntz"])
#: A text that is a number. Python's own classes accept more: digits of other scripts, and ``_`` between digits.
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DAY = 86_400_000_000
#: Decimals with fewer digits differ as doubles, too.
_DIGITS_OF_DOUBLE = 10**15
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compare(operator: str, left: Node, right: Node) -> Node:
    """``left operator right``, where either side may be a literal or an expression.

    Raises:
        InvalidPredicateError: the two have no common type, or a literal is not valid for the other side's type.
    """
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return compare(_MIRROR.get(operator, operator), right, left)
    if isinstance(right, Literal):
        if isinstance(left, Literal):
            return _fold(operator, left, right)
        return preimage_of(_with_literal(operator, *_unwidened(left, right)))
    if left.type is not None and right.type is not None and family(left.type) != family(right.type):
        raise InvalidPredicateError(
            f"{describe(left)} is compared with {describe(right)}; expected values of comparable types",
            hint="Compare columns of the same type; in a merge, cast the column of the source",
        )
    if left.type is not None and family(left.type) == "void" and right.type is not None:  # both are null in every row
        return TRUE if operator == "<=>" else UNKNOWN
    return Comparison(operator, left, right)


def among(operand: Node, literals: Iterable[Literal]) -> Node:
    """``operand IN (literals)``."""
    listed = list(literals)
    has_null = any(literal.value is None for literal in listed)
    not_null = [literal for literal in listed if literal.value is not None]
    if isinstance(operand, Opaque):
        raise InvalidPredicateError(f"the type of {operand.sql!r} before IN is unknown")
    if isinstance(operand, Literal):
        return disjunction([_fold("=", operand, literal) for literal in listed])
    if is_widening(operand):
        return among(operand.operand, [_unwidened(operand, literal)[1] for literal in listed])
    kind = family(operand.type)
    if kind == "void":
        return UNKNOWN
    if any(isinstance(literal.value, float) for literal in not_null):  # a double makes all numbers doubles
        not_null = [_as_double(literal) for literal in not_null]
    values: dict[Any, None] = {}
    ranges: list[Node] = []
    for literal in not_null:
        point = _grid_point(operand, literal)
        if point is not None and isinstance(operand.type, PrimitiveType) and _is_rounded(point, literal, operand.type):
            ranges.append(_with_literal("=", operand, literal))
            continue
        fitted = _fit(operand, literal)
        if fitted is not None:
            values[fitted] = None
    if values:
        return disjunction([preimage_of(In(operand, tuple(values), has_null)), *ranges])
    return disjunction([UNKNOWN if has_null else false_unless_null(operand), *ranges])


def family(data_type: DataType | None) -> str:
    """The family of a type: number, string, binary, boolean, time or void.

    Raises:
        InvalidPredicateError: the type is nested, or not supported in conditions.
    """
    if isinstance(data_type, PrimitiveType):
        if data_type.type in INTEGRAL_BITS or data_type.type in FLOATING or data_type.decimal is not None:
            return "number"
        if data_type.type in TEMPORAL:
            return "time"
        if data_type.is_known:
            return data_type.type
    raise InvalidPredicateError(
        f"a value of type {data_type} cannot be compared", hint="Compare a member of it, or use IS NULL"
    )


def describe(node: Node) -> str:
    if isinstance(node, Column):
        return f"column {'.'.join(node.path)!r} of type {node.type}"
    if isinstance(node, Literal):
        if isinstance(node.value, (Decimal, float)):
            return f"the number {node.value}"
        return f"the {node.type} {node.value!r}"
    return f"an expression of type {node.type}"


def mismatch(operand: Node, what: str) -> InvalidPredicateError:
    """The error for a literal that does not fit an operand."""
    return InvalidPredicateError(
        f"{describe(operand)} is {what}",
        hint="Write the literal in the column's type: 'text', 1.5, DATE '2024-01-31', TIMESTAMP '...', TRUE",
    )


def _unwidened(operand: Node, literal: Literal) -> tuple[Node, Literal]:
    if not is_widening(operand):
        return operand, literal
    # In a comparison of doubles the literal is rounded to a double.
    if operand.type.type in FLOATING and literal.value is not None:
        literal = Literal(_float(_number_of(operand, literal)), PrimitiveType("double"))
    return _unwidened(operand.operand, literal)


def _with_literal(operator: str, operand: Node, literal: Literal) -> Node:
    if literal.value is None:
        return is_null(operand) if operator == "<=>" else UNKNOWN
    if isinstance(operand, Opaque):
        return Comparison(operator, operand, literal)
    kind = operand.type
    if family(kind) == "void":
        return FALSE if operator == "<=>" else UNKNOWN
    assert isinstance(kind, PrimitiveType)
    point = _grid_point(operand, literal)
    if point is None:
        return Comparison(operator, operand, Literal(_fit(operand, literal), kind))
    first, last = _equal_points(point, literal, kind)
    least, greatest = extremes(kind)
    if first == last and least <= first <= greatest:
        return Comparison(operator, operand, Literal(_from_grid(first, kind), kind))
    match operator:
        case "<":
            return _at_most(operand, first - 1, kind)
        case "<=":
            return _at_most(operand, last, kind)
        case ">":
            return _at_least(operand, last + 1, kind)
        case ">=":
            return _at_least(operand, first, kind)
    if first >= last:  # no value equals the literal
        if operator == "<=>":
            return FALSE
        return false_unless_null(operand) if operator == "=" else true_unless_null(operand)
    is_equal = conjunction([_at_least(operand, first, kind), _at_most(operand, last, kind)])
    if operator == "<=>":
        return conjunction([Not(is_null(operand)), is_equal])
    return is_equal if operator == "=" else Not(is_equal)


def _at_most(operand: Node, point: int, kind: PrimitiveType) -> Node:
    least, greatest = extremes(kind)
    if point < least:
        return false_unless_null(operand)
    if point >= greatest:
        return true_unless_null(operand)
    return Comparison("<=", operand, Literal(_from_grid(point, kind), kind))


def _at_least(operand: Node, point: int, kind: PrimitiveType) -> Node:
    least, greatest = extremes(kind)
    if point > greatest:
        return false_unless_null(operand)
    if point <= least:
        return true_unless_null(operand)
    return Comparison(">=", operand, Literal(_from_grid(point, kind), kind))


def _equal_points(point: Fraction, literal: Literal, kind: PrimitiveType) -> tuple[int, int]:
    """The first and the last point of the grid that equal a literal; the first is greater than the last if none does.

    Several points may equal a double, because Spark compares doubles: as a double, 2^53 + 1 is 2^53.
    """
    if not _is_rounded(point, literal, kind):
        return math.ceil(point), math.floor(point)
    unit = 10 ** kind.decimal[1] if kind.decimal is not None else 1
    least, greatest = extremes(kind)

    def first_point(is_reached: Callable[[float], bool]) -> int:
        low, high = least, greatest + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_reached(middle / unit) else (middle + 1, high)
        return low

    number = literal.value
    return first_point(lambda double: double >= number), first_point(lambda double: double > number) - 1


def _is_rounded(point: Fraction, literal: Literal, kind: PrimitiveType) -> bool:
    """Whether values of the type are rounded to doubles near a literal, which is a double."""
    is_double = isinstance(literal.value, float) and math.isfinite(literal.value)
    return is_double and abs(point) >= _DIGITS_OF_DOUBLE and extremes(kind)[1] >= _DIGITS_OF_DOUBLE


def _fold(operator: str, left: Literal, right: Literal) -> Node:
    if left.value is None or right.value is None:
        if operator == "<=>":
            return TRUE if left.value is right.value else FALSE
        return UNKNOWN
    if family(left.type) == family(right.type) == "number":
        a, b = _number(left), _number(right)
    elif left.type == right.type:
        a, b = left.value, right.value
    elif left.type.type in TEMPORAL or right.type.type in TEMPORAL:
        a, b = _micros(right, left), _micros(left, right)
    elif family(left.type) == "number":
        a, b = _number(left), _number_of(left, right)
    elif family(right.type) == "number":
        a, b = _number_of(right, left), _number(right)
    elif isinstance(left.value, str):
        a, b = _fit(right, left), right.value
    else:
        a, b = left.value, _fit(left, right)
    # No column determines the type of two literals, so a double makes both doubles.
    if isinstance(left.value, float) or isinstance(right.value, float):
        a, b = float(a), float(b)
    if isinstance(a, Decimal | float) and isinstance(b, Decimal | float) and (a != a or b != b):
        a, b = a != a, b != b  # NaN equals itself and is greater than any other number
        if operator in ("=", "<=>"):
            return TRUE if a and b else FALSE
    outcome = {
        "=": a == b,
        "<=>": a == b,
        "!=": a != b,
        "<": a < b,
        "<=": a <= b,
        ">": a > b,
        ">=": a >= b,
    }[operator]
    return Literal(outcome, BOOLEAN)


def _fit(operand: Node, literal: Literal) -> Any:
    """The literal as a value of the operand's type; None if no value of that type equals it."""
    kind = operand.type
    assert isinstance(kind, PrimitiveType)
    point = _grid_point(operand, literal)
    if point is not None:
        least, greatest = extremes(kind)
        return _from_grid(int(point), kind) if point.denominator == 1 and least <= point <= greatest else None
    value = literal.value
    if kind.type in FLOATING:
        return _float(_number_of(operand, literal))
    if kind.type == "string" and isinstance(value, str):
        return value
    if kind.type == "binary" and isinstance(value, (bytes, str)):
        return value if isinstance(value, bytes) else value.encode()
    if kind.type == "boolean":
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
    raise mismatch(operand, f"compared with {describe(literal)}")


def _grid_point(operand: Node, literal: Literal) -> Fraction | None:
    """The position of the literal on the grid of the operand's type; None for a type without a grid."""
    kind = operand.type
    assert isinstance(kind, PrimitiveType)
    if kind.type in TEMPORAL:
        micros = _micros(operand, literal)
        return Fraction(micros, _DAY) if kind.type == "date" else Fraction(micros)
    scale = kind.decimal[1] if kind.decimal is not None else 0 if kind.type in INTEGRAL_BITS else None
    if scale is None:
        return None
    number = _number_of(operand, literal)
    if isinstance(number, float):
        number = Decimal(repr(number))
    # Infinities and huge numbers lie beyond every grid; so does NaN, which is the greatest number.
    if not number.is_finite() or number.adjusted() > 400:
        return Fraction(-(10**400) if not number.is_nan() and number < 0 else 10**400)
    if number and number.adjusted() < -400:
        return Fraction(-1 if number < 0 else 1, 10**400)
    return Fraction(number) * Fraction(10**scale)


def extremes(kind: PrimitiveType) -> tuple[int, int]:
    """The least and the greatest point on the grid of a type; for a decimal, without the point between its digits."""
    if kind.decimal is not None:
        most = 10 ** kind.decimal[0] - 1
        return -most, most
    bits = INTEGRAL_BITS.get(kind.type, 32 if kind.type == "date" else 64)
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _from_grid(point: int, kind: PrimitiveType) -> Any:
    if kind.decimal is None:
        return point
    # Built from its digits, because decimal arithmetic would round to 28 digits.
    return Decimal((int(point < 0), tuple(map(int, str(abs(point)))), -kind.decimal[1]))


def _number(literal: Literal) -> Any:
    return literal.value if isinstance(literal.value, float) else Decimal(literal.value)


def _number_of(operand: Node, literal: Literal) -> Decimal | float:
    if family(literal.type) == "number":
        number: Decimal | float = _number(literal)
        return number
    text, is_integer = str(literal.value).strip(), _is_integer(operand)
    if isinstance(literal.value, str) and (_INTEGER if is_integer else NUMBER).fullmatch(text):
        try:
            exact = Decimal(text)
        except InvalidOperation:  # its exponent is too large
            raise mismatch(operand, f"compared with {describe(literal)}") from None
        if not is_integer or -(1 << 63) <= exact < 1 << 63:  # beside an integer, Spark converts text to a long
            return exact
    raise mismatch(operand, f"compared with {describe(literal)}")


def _is_integer(operand: Node) -> bool:
    if isinstance(operand, Literal) and isinstance(operand.value, Decimal):
        return int(operand.value.as_tuple().exponent) >= 0
    return isinstance(operand.type, PrimitiveType) and operand.type.type in INTEGRAL_BITS


def _as_double(literal: Literal) -> Literal:
    return Literal(float(literal.value), PrimitiveType("double")) if isinstance(literal.value, Decimal) else literal


def _float(number: Decimal | float) -> float:
    value = float(number)
    return 0.0 if value == 0 else value


def _micros(operand: Node, literal: Literal) -> int:
    value = literal.value
    if literal.type.type == "date":
        return int(value) * _DAY
    if literal.type.type in TEMPORAL:
        return int(value)
    if isinstance(value, str):
        kind = operand.type
        date_only = isinstance(kind, PrimitiveType) and kind.type == "date"
        days = parse_date(value) if date_only else None
        if days is not None:
            return days * _DAY
        by_wall_clock = isinstance(kind, PrimitiveType) and kind.type == "timestamp_ntz"
        micros = None if date_only else parse_timestamp(value, by_wall_clock=by_wall_clock)
        if micros is not None:
            return micros
    raise mismatch(operand, f"compared with {describe(literal)}")
