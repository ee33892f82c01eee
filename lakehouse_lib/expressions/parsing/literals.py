"""Literals in SQL."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sqlglot import exp

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import BOOLEAN, Literal, Node
from lakehouse_lib.expressions.parsing.casts import number
from lakehouse_lib.schema import PrimitiveType

_STRING = PrimitiveType("string")


def literal_of(tree: Any) -> Literal:
    """The literal of sqlglot's tree.

    Raises:
        InvalidPredicateError: it is not a valid number or binary value.
    """
    if isinstance(tree, exp.Literal):
        return Literal(str(tree.this), _STRING) if tree.is_string else number(str(tree.this))
    if isinstance(tree, exp.Boolean):
        return Literal(bool(tree.this), BOOLEAN)
    if isinstance(tree, exp.HexString):
        digits = str(tree.this)
        try:
            return Literal(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), PrimitiveType("binary"))
        except ValueError:
            raise InvalidPredicateError(f"X'{digits}' is not a binary literal") from None
    if isinstance(tree, exp.RawString):
        return Literal(str(tree.this), _STRING)
    return Literal(None, PrimitiveType("void"))


def small_integer(node: Node) -> int | None:
    """The value of a literal that is a small whole number, or None."""
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < 1 << 30:
        return int(value)
    return None
