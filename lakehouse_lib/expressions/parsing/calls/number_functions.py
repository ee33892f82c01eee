"""Readers of functions of numbers; a reader returns None for a call that only Spark can evaluate."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lakehouse_lib.expressions.ir import Cast, Function, Literal, Node
from lakehouse_lib.expressions.parsing.common_types import is_calculated_wider, with_common_type
from lakehouse_lib.expressions.parsing.comparison import INTEGRAL_BITS, family
from lakehouse_lib.expressions.parsing.literals import small_integer
from lakehouse_lib.schema import PrimitiveType

_DOUBLE = PrimitiveType("double")
_INTEGER = PrimitiveType("integer")
_LONG = PrimitiveType("long")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: More digits after the point than a double has.
_MOST_DIGITS = 15


def read_abs(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    operand = read(tree.this)
    kind = _type_of_number(operand)
    return None if kind is None else Function("abs", (operand,), kind)


def read_negation(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    """The negation of a number. Its type is that of the number, so the negation of the least integer overflows."""
    inner = tree.this
    if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and inner.to.is_type(*_INTEGERS):
        # -128Y is the least byte, but sqlglot reads it as -CAST(128 AS TINYINT).
        inner = inner.copy()
        inner.set("this", exp.Neg(this=inner.this.copy()))
        return read(inner)
    operand = read(inner)
    if isinstance(operand, Literal):
        if isinstance(operand.value, Decimal):  # unary minus would round to 28 digits; only doubles have a -0.0
            return Literal(operand.value.copy_negate(), operand.type) if operand.value else operand
        return Literal(-operand.value, operand.type) if isinstance(operand.value, float) else None
    kind = operand.type
    is_number = isinstance(kind, PrimitiveType) and kind.is_known and family(kind) == "number"
    return Function("negative", (operand,), kind) if is_number and kind is not None else None


def read_round(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    operand = read(tree.this)
    kind = _type_of_number(operand)
    decimals = tree.args.get("decimals")
    digits = 0 if decimals is None else small_integer(read(decimals))
    if kind is None or digits is None:
        return None
    if kind.type in INTEGRAL_BITS:
        if digits >= 0:
            return operand
        return Function("round", (operand, Literal(digits, _INTEGER)), kind) if digits > -_MOST_DIGITS else None
    if not 0 <= digits <= _MOST_DIGITS:
        return None
    if kind.decimal is not None:
        precision, scale = kind.decimal
        digits = min(digits, scale)
        kind = PrimitiveType(f"decimal({min(precision - scale + 1 + digits, 38)},{digits})")
    return Function("round", (operand, Literal(digits, _INTEGER)), kind)


def read_floor_or_ceil(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    operand = read(tree.this)
    kind = _type_of_number(operand)
    if kind is None:
        return None
    name = "floor" if isinstance(tree, exp.Floor) else "ceil"
    if kind.decimal is not None:
        precision, scale = kind.decimal
        if not scale:
            return operand
        return Function(name, (operand,), PrimitiveType(f"decimal({min(precision - scale + 1, 38)},0)"))
    if kind.type in INTEGRAL_BITS:
        return operand if kind == _LONG else Cast(operand, _LONG)
    return Function(name, (Cast(operand, _DOUBLE) if kind != _DOUBLE else operand,), _LONG)


def read_extreme(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    arguments = with_common_type([read(part) for part in (tree.this, *tree.expressions)])
    if arguments is None or len(arguments) < 2 or not isinstance(arguments[0].type, PrimitiveType):
        return None
    return Function("greatest" if isinstance(tree, exp.Greatest) else "least", arguments, arguments[0].type)


def _type_of_number(node: Node) -> PrimitiveType | None:
    """The type of a number that is not a literal, if it has the type that it has in Spark; else None."""
    kind = node.type
    if isinstance(node, Literal) or not isinstance(kind, PrimitiveType) or is_calculated_wider(node):
        return None
    return kind if kind.is_known and family(kind) == "number" else None


#: By sqlglot's class: the reader of the function, and the arguments of the tree that the reader supports.
READERS: dict[Any, tuple[Callable[[Any, Callable[[Any], Node]], Node | None], tuple[str, ...]]] = {
    exp.Abs: (read_abs, ("this",)),
    exp.Ceil: (read_floor_or_ceil, ("this",)),
    exp.Floor: (read_floor_or_ceil, ("this",)),
    exp.Greatest: (read_extreme, ("this", "expressions", "ignore_nulls")),
    **dict.fromkeys((exp.Neg, exp.Negative), (read_negation, ("this",))),
    exp.Least: (read_extreme, ("this", "expressions", "ignore_nulls")),
    exp.Round: (read_round, ("this", "decimals")),
}
