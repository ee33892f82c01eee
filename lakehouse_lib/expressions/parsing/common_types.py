"""The type to which Spark converts values that must have one type, such as the arguments of ``coalesce``."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from lakehouse_lib.expressions.ir import (
    WHOLE_DIGITS,
    Arithmetic,
    Assignment,
    Case,
    Cast,
    Function,
    Literal,
    Node,
    decimal_size,
    walk,
)
from lakehouse_lib.expressions.parsing.casts import LOSSLESS
from lakehouse_lib.expressions.parsing.comparison import FLOATING, INTEGRAL_BITS
from lakehouse_lib.schema import DataType, PrimitiveType

_DOUBLE = PrimitiveType("double")
_FLOAT = PrimitiveType("float")
_INT = PrimitiveType("integer")
_LONG = PrimitiveType("long")
_VOID = PrimitiveType("void")
_MOST_DIGITS = 38
#: Functions whose result has the type of their arguments.
_OF_ARGUMENTS = ("abs", "coalesce", "greatest", "least", "round")


def with_common_type(nodes: Sequence[Node]) -> tuple[Node, ...] | None:
    """The nodes, converted to the common type that they have in Spark.

    None: there is no common type, only Spark knows it, or all nodes are literals.
    """
    kinds = [type_in_spark(node) for node in nodes]
    if all(isinstance(node, Literal) for node in nodes) or any(map(is_calculated_wider, nodes)):
        return None
    present = [kind for kind in kinds if kind != _VOID]
    if not all(isinstance(kind, PrimitiveType) for kind in present):
        is_same = all(kind is not None and kind == present[0] for kind in present) and len(present) == len(kinds)
        return tuple(nodes) if is_same else None
    primitive = [kind for kind in present if isinstance(kind, PrimitiveType)]
    kind = _common(primitive)
    # Arithmetic of integers is calculated as longs.
    if any(node.type == _LONG for node in nodes) and kind is not None and kind.type in INTEGRAL_BITS:
        kind = _LONG
    return None if kind is None else tuple(_converted(node, kind) for node in nodes)


def type_in_spark(node: Node) -> DataType | None:
    """The type that Spark gives to an expression; None: only Spark knows it.

    Integers are calculated as longs here, and in Spark in the wider type of both operands. Floats are calculated as
    doubles, and in Spark as floats.
    """
    if isinstance(node, Literal):
        return _type_of_literal(node)
    if isinstance(node, Function) and node.name == "negative":
        return type_in_spark(node.arguments[0])
    operands: tuple[Node, ...] = ()
    if isinstance(node, Arithmetic) and node.operator != "/" and node.left.type == node.right.type == _FLOAT:
        return _FLOAT
    if node.type == _LONG:
        match node:
            case Arithmetic(operator="+" | "-" | "*" | "%"):
                operands = (node.left, node.right)
            case Function(name=name) if name in _OF_ARGUMENTS:
                operands = node.arguments if name != "round" else node.arguments[:1]
            case Case():
                operands = (*(then for _, then in node.branches), node.otherwise)
    kinds = [kind for kind in map(type_in_spark, operands) if isinstance(kind, PrimitiveType) and kind != _VOID]
    if not kinds or any(kind.type not in INTEGRAL_BITS for kind in kinds):
        return node.type
    return max(kinds, key=lambda kind: INTEGRAL_BITS[kind.type])


def is_calculated_wider(node: Node) -> bool:
    """Whether a part is calculated as a double here, and as a float in Spark."""
    return any(part.type == _DOUBLE and type_in_spark(part) == _FLOAT for part in walk(node))


def has_exact_types(node: Node) -> bool:
    """Whether all parts of an expression have the types that they have in Spark."""
    return all(isinstance(part, Literal) or type_in_spark(part) == part.type for part in walk(node))


def _type_of_literal(literal: Literal) -> PrimitiveType:
    value = literal.value
    if isinstance(value, int) and literal.type.type in INTEGRAL_BITS:
        value = Decimal(value)
    if not isinstance(value, Decimal):
        return literal.type
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < 0:
        scale = -exponent if isinstance(exponent, int) else 0
        return PrimitiveType(f"decimal({min(max(len(digits), scale), _MOST_DIGITS)},{min(scale, _MOST_DIGITS)})")
    if -(1 << 63) <= value < 1 << 63:
        return _INT if -(1 << 31) <= value < 1 << 31 else _LONG
    return PrimitiveType(f"decimal({min(len(digits) + exponent, _MOST_DIGITS)},0)")


def _common(kinds: Sequence[PrimitiveType]) -> PrimitiveType | None:
    if not kinds:
        return None
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if not all(kind.type in WHOLE_DIGITS or kind.type in FLOATING or kind.decimal for kind in kinds):
        return None
    if any(kind.type in FLOATING for kind in kinds):
        return _DOUBLE
    sizes = [size for size in map(decimal_size, kinds) if size is not None]
    if all(kind.decimal is None for kind in kinds):
        return max(kinds, key=lambda kind: INTEGRAL_BITS[kind.type])
    scale = max(scale for _, scale in sizes)
    precision = max(precision - scale for precision, scale in sizes) + scale
    return PrimitiveType(f"decimal({precision},{scale})") if precision <= _MOST_DIGITS else None


def _converted(node: Node, kind: PrimitiveType) -> Node:
    if isinstance(node, Literal):
        value = node.value
        if isinstance(value, Decimal | float) and kind.decimal is None:
            value = int(value) if kind.type in INTEGRAL_BITS else float(value)
        return Literal(value, kind)
    if node.type == kind:
        return node
    is_lossless = isinstance(node.type, PrimitiveType) and kind.type in LOSSLESS.get(node.type.type, ())
    is_decimal = kind.decimal is not None and decimal_size(node.type) is not None
    return Cast(node, kind) if is_lossless or is_decimal else Assignment(node, kind)
