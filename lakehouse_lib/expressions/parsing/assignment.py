"""Conversion of an expression to the type of the column to which SET or INSERT assigns it.

The rules are those of Spark's ANSI store assignment. In addition, text in quotes can be assigned to a column of dates,
times or numbers, as text can be compared with such a column in a condition.
"""

from __future__ import annotations

import datetime as dt
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Arithmetic, Assignment, Cast, Function, Literal, Node, Opaque
from lakehouse_lib.expressions.parsing.casts import number
from lakehouse_lib.expressions.parsing.comparison import (
    FLOATING,
    INTEGRAL_BITS,
    NUMBER,
    TEMPORAL,
    describe,
)
from lakehouse_lib.expressions.parsing.times import parse_date, parse_timestamp
from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.schema.nesting import equal_except_nullability

_DAY = 86_400_000_000
_FLOAT = PrimitiveType("float")
_EXACT = Context(prec=400)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_LAST_DAY = dt.date.max.toordinal()


def assigned(node: Node, kind: DataType) -> Node:
    """The node that converts the value of ``node`` to a column of type ``kind``.

    Raises:
        InvalidPredicateError: the type cannot be assigned to the column's type, or a literal is not valid for that
            type.
    """
    node = _with_float_arithmetic(node)
    if isinstance(node, Literal):
        return _literal(node, kind)
    if isinstance(node, Opaque):
        return Assignment(node, kind)
    source = node.type
    if source is not None and equal_except_nullability(source, kind):
        return node
    if not isinstance(source, PrimitiveType) or not isinstance(kind, PrimitiveType):
        raise _refusal(node, kind)
    if is_number(source) and is_number(kind):
        if source.type in FLOATING and kind.decimal is not None:
            raise _refusal(node, kind)
        return Assignment(node, kind)
    if (source.type, kind.type) in (("date", "timestamp"), ("date", "timestamp_ntz")):
        return Cast(node, kind)
    if kind.type == "date" and source.type in TEMPORAL:
        return Cast(node, kind)
    if kind.type == "string" and (source.type in INTEGRAL_BITS or source.type == "date"):
        return Cast(node, kind)
    raise _refusal(node, kind)


def _with_float_arithmetic(node: Node) -> Node:
    """Arithmetic of two floats as a float, as in Spark; conditions calculate it as a double."""
    if isinstance(node, Function) and node.name == "negative":
        operand = _with_float_arithmetic(node.arguments[0])
        return Function(node.name, (operand,), operand.type or node.type)
    if not isinstance(node, Arithmetic):
        return node
    left, right = _with_float_arithmetic(node.left), _with_float_arithmetic(node.right)
    kind = _FLOAT if left.type == right.type == _FLOAT and node.operator != "/" else node.type
    return Arithmetic(node.operator, left, right, kind)


def _literal(literal: Literal, kind: DataType) -> Node:
    if not isinstance(kind, PrimitiveType):
        if literal.value is not None:
            raise _refusal(literal, kind)
        return Assignment(literal, kind)
    if literal.value is None:
        return Literal(None, kind)
    value = literal.value if literal.type == kind and not is_number(kind) else _value(literal, kind)
    if value is None:
        raise _refusal(literal, kind)
    return Literal(value, kind)


def _value(literal: Literal, kind: PrimitiveType) -> Any:
    """The literal's value in a primitive type; None if it cannot be assigned to that type."""
    value = literal.value
    if is_number(kind):
        return _number(literal, kind)
    if kind.type in TEMPORAL:
        return _time(literal, kind)
    if kind.type == "string":
        if isinstance(value, bool):
            return "true" if value else "false"
        if literal.type.type == "date":
            return str(dt.date.fromordinal(value + _EPOCH_DAY)) if 0 < value + _EPOCH_DAY <= _LAST_DAY else None
        if isinstance(value, Decimal):
            return f"{value:f}"
        return value if isinstance(value, str) else None
    if kind.type == "binary":
        return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None
    if kind.type == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value if kind.type == "boolean" and isinstance(value, bool) else None


def _number(literal: Literal, kind: PrimitiveType) -> Any:
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal | float) or literal.type.type in TEMPORAL:
        return None
    if isinstance(value, str):
        text = value.strip()
        if not NUMBER.fullmatch(text):
            return None
        value = number(text).value
    if kind.type in FLOATING:
        with np.errstate(over="ignore"):
            return float(np.float32(value)) if kind.type == "float" else float(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise _out_of_range(literal, kind)
    if kind.decimal is not None:
        precision, scale = kind.decimal
        if exact.adjusted() > precision:
            raise _out_of_range(literal, kind)
        rounded = exact.quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, _EXACT)
        if rounded and rounded.adjusted() >= precision - scale:
            raise _out_of_range(literal, kind)
        return rounded
    half = 1 << (INTEGRAL_BITS[kind.type] - 1)
    if exact.adjusted() > 20 or not -half <= int(exact.to_integral_value(ROUND_DOWN, _EXACT)) < half:
        raise _out_of_range(literal, kind)
    return int(exact.to_integral_value(ROUND_DOWN, _EXACT))


def _time(literal: Literal, kind: PrimitiveType) -> int | None:
    value, source = literal.value, literal.type.type
    if isinstance(value, str):
        if kind.type == "date":
            return parse_date(value)
        return parse_timestamp(value, by_wall_clock=kind.type == "timestamp_ntz")
    if source not in TEMPORAL:
        return None
    if kind.type == "date":
        return int(value if source == "date" else value // _DAY)
    if source == "date":
        return int(value * _DAY)
    return int(value)  # a time without a zone is in UTC


def is_number(kind: DataType | None) -> bool:
    """Whether the values of a type are numbers."""
    return isinstance(kind, PrimitiveType) and (
        kind.type in INTEGRAL_BITS or kind.type in FLOATING or kind.decimal is not None
    )


def _refusal(node: Node, kind: DataType) -> InvalidPredicateError:
    if isinstance(node, Literal):
        hint = "Write a literal of the column's type: 'text', 1.5, DATE '2026-01-31', TIMESTAMP '...', TRUE"
    else:
        hint = "Cast it to the column's type; the Spark engine evaluates every cast"
    return InvalidPredicateError(
        f"{describe(node)} cannot be assigned to a column of type {kind}",
        hint=hint,
        code="DELTA_INVALID_ASSIGNMENT",
    )


def _out_of_range(literal: Literal, kind: PrimitiveType) -> InvalidPredicateError:
    return InvalidPredicateError(
        f"{describe(literal)} is out of the range of type {kind}",
        hint="Assign a smaller number, or widen the column",
        code="DELTA_INVALID_ASSIGNMENT",
    )
