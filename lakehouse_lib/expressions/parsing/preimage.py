"""Rewrite a comparison of a cast or function as a comparison of its column; the cast or function must keep order.

``CAST(ts AS DATE) = DATE '2024-01-31'`` is true for ts from that midnight to the next, and NULL where ts is NULL. In
this form, the bounds of ts can prune files and row groups.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeGuard

from lakehouse_lib.expressions.ir import Cast, Comparison, Function, In, Literal, Node, Not, conjunction, disjunction
from lakehouse_lib.schema import PrimitiveType

_DAY = 86_400_000_000
_NUMBERS = frozenset(["byte", "short", "integer", "long", "float", "double"])
_MOST_VALUES = 100


def preimage_of(node: Node) -> Node:
    """The same condition on the operand of a cast or function; ``node`` itself if it cannot be rewritten."""
    match node:
        case Comparison(operator=operator, left=Cast() | Function() as outer, right=Literal() as literal):
            floor = _floor(outer)
            if floor is not None and operator != "<=>":
                return _between_starts(operator, literal.value, floor) or node
        case In(operand=Cast() | Function() as outer, values=values, has_null=False) if len(values) <= _MOST_VALUES:
            floor = _floor(outer)
            if floor is not None:
                parts = [_between_starts("=", value, floor) for value in values]
                if all(parts):
                    return disjunction([part for part in parts if part is not None])
    return node


def is_widening(node: Node) -> TypeGuard[Cast]:
    """Whether the node casts a number to a wider number. Comparisons are exact, so the cast changes no result."""
    return (
        isinstance(node, Cast)
        and isinstance(node.operand.type, PrimitiveType)
        and node.operand.type.type in _NUMBERS
        and node.type.type in _NUMBERS
    )


#: The operand that is rounded down, and a function from a result to its least operand (None: out of range).
_Floor = tuple[Node, Callable[[int], Literal | None]]


def _floor(outer: Cast | Function) -> _Floor | None:
    operand = outer.operand if isinstance(outer, Cast) else outer.arguments[0]
    kind = operand.type
    if not isinstance(kind, PrimitiveType):
        return None
    moments = kind.type in ("timestamp", "timestamp_ntz")
    if isinstance(outer, Cast) and outer.type.type == "date" and moments:
        return operand, lambda day: _moment(day * _DAY, kind)
    if isinstance(outer, Function) and outer.name == "year" and (moments or kind.type == "date"):
        return operand, lambda year: _new_year(year, kind, _DAY if moments else 1)
    return None


def _moment(micros: int, kind: PrimitiveType) -> Literal | None:
    return Literal(micros, kind) if -(1 << 63) <= micros < 1 << 63 else None


def _new_year(year: int, kind: PrimitiveType, unit: int) -> Literal | None:
    if not 1 <= year <= 9999:
        return None
    return Literal((dt.date(year, 1, 1).toordinal() - 719_163) * unit, kind)


def _between_starts(operator: str, value: int, floor: _Floor) -> Node | None:
    """A comparison of the operand that is true where its rounded value and ``value`` compare so.

    None: the operand has no least value that is rounded to ``value``, or to the next value.
    """
    operand, start = floor
    first, end = start(value), start(value + 1)
    if first is None or end is None:
        return None
    inside = conjunction([Comparison(">=", operand, first), Comparison("<", operand, end)])
    return {
        "=": inside,
        "!=": Not(inside),
        "<": Comparison("<", operand, first),
        "<=": Comparison("<", operand, end),
        ">": Comparison(">=", operand, end),
        ">=": Comparison(">=", operand, first),
    }[operator]
