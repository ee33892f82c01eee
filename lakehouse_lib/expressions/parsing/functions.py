"""Readers that make nodes of SQL functions; a reader returns None for a call that only Spark can evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from sqlglot import exp

from lakehouse_lib.expressions.ir import Cast, Column, Function, Like, Literal, Node, Not, is_null
from lakehouse_lib.expressions.parsing.arithmetic import shift
from lakehouse_lib.expressions.parsing.casts import cast
from lakehouse_lib.expressions.parsing.comparison import TEMPORAL, compare
from lakehouse_lib.schema import PrimitiveType

#: Makes the node of a part of the tree.
Read = Callable[[Any], Node]

#: The classes of sqlglot for SQL that does not have one value for each row.
NOT_OF_ONE_ROW = (
    exp.AggFunc,
    exp.Window,
    exp.Query,
    exp.Subquery,
    exp.Placeholder,
    exp.Parameter,
    exp.Star,
    exp.Block,
    exp.UDTF,
    exp.Explode,
    exp.Inline,
    exp.Stack,
)

_DATE = PrimitiveType("date")
_DOUBLE = PrimitiveType("double")
_FLOAT = PrimitiveType("float")
_INTEGER = PrimitiveType("integer")
_STRING = PrimitiveType("string")


def _coalesce(tree: Any, read: Read) -> Node | None:
    arguments = [read(part) for part in [tree.this, *tree.expressions]]
    kind = arguments[0].type
    if not isinstance(kind, PrimitiveType) or isinstance(arguments[0], Literal):
        return None
    if kind.type == "float" and any(map(_widens_float, arguments)):
        kind = _DOUBLE
        arguments = [Cast(part, kind) if part.type == _FLOAT else part for part in arguments]
    fitted = [_argument(argument, kind) for argument in arguments]
    operands = tuple(argument for argument in fitted if argument is not None)
    return Function("coalesce", operands, kind) if len(operands) == len(fitted) else None


def _widens_float(node: Node) -> bool:
    """Whether ``coalesce`` of a float and this argument is a double with another value than a float, as in Spark."""
    if not isinstance(node, Literal):
        return node.type == _DOUBLE
    value = node.value
    is_fraction = isinstance(value, float) or (isinstance(value, Decimal) and value != value.to_integral_value())
    return is_fraction and not _is_float32(float(value))


def _argument(node: Node, kind: PrimitiveType) -> Node | None:
    if not isinstance(node, Literal):
        return node if node.type == kind else None
    # A comparison with the literal decides exactly whether it is a value of the type.
    fitted = getattr(compare("=", Column(("",), kind), node), "right", None)
    if kind.type == "float" and isinstance(fitted, Literal) and not _is_float32(fitted.value):
        return None  # an integer that Spark rounds to a float
    return fitted


def _is_float32(number: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(np.float32(number), number, equal_nan=True))


def _length(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    return Function("length", (operand,), _INTEGER) if _is_text(operand) else None


def _part_of_date(tree: Any, read: Read) -> Node | None:
    if isinstance(tree, exp.Extract):
        name, inner = str(tree.this).lower(), tree.expression
    else:
        name, inner = type(tree).__name__.lower(), tree.this
    name = {"dayofmonth": "day"}.get(name, name)
    operand = read(inner.this if isinstance(inner, exp.TsOrDsToDate) else inner)
    if isinstance(operand, Literal) or not isinstance(operand.type, PrimitiveType):
        return None
    is_supported = operand.type.type in TEMPORAL and name in ("year", "month", "day")
    return Function(name, (operand,), _INTEGER) if is_supported else None


def _begins(tree: Any, read: Read) -> Node | None:
    return _with_text(tree, read, lambda text: f"{text}%")


def _contains(tree: Any, read: Read) -> Node | None:
    return _with_text(tree, read, lambda text: f"%{text}%")


def _ends(tree: Any, read: Read) -> Node | None:
    return _with_text(tree, read, lambda text: f"%{text}")


def _with_text(tree: Any, read: Read, pattern: Callable[[str], str]) -> Node | None:
    operand, text = read(tree.this), read(tree.expression)
    if not _is_text(operand) or not isinstance(text, Literal) or not isinstance(text.value, str):
        return None
    escaped = text.value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return Like(operand, pattern(escaped))


def _substring(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    first = exp.Literal.number(1) if isinstance(tree, exp.Left) else tree.args.get("start")
    count = tree.expression if isinstance(tree, exp.Left) else tree.args.get("length")
    start, length = (None if part is None else small_integer(read(part)) for part in (first, count))
    if not _is_text(operand) or start is None or length is None or start < 1 or length < 0:
        return None
    return Function("substring", (operand, Literal(start, _INTEGER), Literal(length, _INTEGER)), _STRING)


def small_integer(node: Node) -> int | None:
    """The value of a literal that is a small whole number, or None."""
    value = node.value if isinstance(node, Literal) else None
    if isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < 1 << 30:
        return int(value)
    return None


def _trim(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    if not _is_text(operand) or tree.args.get("expression") is not None:
        return None
    name = {"": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(tree.args.get("position") or ""))
    return Function(name, (operand,), _STRING) if name is not None else None


def _concat(tree: Any, read: Read) -> Node | None:
    parts = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
    arguments = tuple(read(part) for part in parts)
    if not all(argument.type == _STRING for argument in arguments):
        return None
    texts = [argument.value for argument in arguments if isinstance(argument, Literal)]
    if len(texts) == len(arguments):
        return Literal(None if None in texts else "".join(texts), _STRING)
    return Function("concat", arguments, _STRING)


def _to_date(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    return None if operand.type == _STRING and not isinstance(operand, Literal) else cast(operand, _DATE, fails=False)


def _add_days(tree: Any, read: Read) -> Node | None:
    days = _whole_product(tree.expression, read)
    operand = cast(read(tree.this), _DATE)
    in_days = str(tree.args.get("unit") or "DAY") == "DAY"
    return shift(operand, days, "DAY") if operand is not None and days is not None and in_days else None


def _whole_product(tree: Any, read: Read) -> int | None:
    """The product of whole numbers, because sqlglot turns ``date_sub(d, n)`` into ``date_add(d, n * -1)``."""
    if not isinstance(tree, exp.Mul):
        return small_integer(read(tree))
    left, right = _whole_product(tree.this, read), _whole_product(tree.expression, read)
    return None if left is None or right is None else left * right


def _is_nan(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    kind = operand.type
    if not isinstance(kind, PrimitiveType) or kind.type not in ("float", "double") or isinstance(operand, Literal):
        return None
    return compare("<=>", operand, Literal(float("nan"), PrimitiveType("double")))


def _named(tree: Any, read: Read) -> Node | None:
    name = str(tree.this).lower()
    if name in ("isnull", "isnotnull") and len(tree.expressions) == 1:
        missing = is_null(read(tree.expressions[0]))
        return missing if name == "isnull" else Not(missing)
    if name == "now" and not tree.expressions:
        return _now(tree, read)
    return None


def _now(tree: Any, _: Read) -> Node | None:
    # The time is that of the parse, so that pruning, both engines and a retried commit select the same rows.
    micros = time.time_ns() // 1000
    if isinstance(tree, exp.CurrentDate):
        return Literal(micros // 86_400_000_000, PrimitiveType("date"))
    return Literal(micros, PrimitiveType("timestamp"))


def _is_text(node: Node) -> bool:
    return node.type == _STRING and not isinstance(node, Literal)


#: By sqlglot's class: the reader of the function, and the arguments of the tree that the reader supports.
READERS: dict[Any, tuple[Callable[[Any, Read], Node | None], tuple[str, ...]]] = {
    exp.Coalesce: (_coalesce, ("this", "expressions", "is_nvl", "is_null")),
    exp.Length: (_length, ("this",)),
    exp.Year: (_part_of_date, ("this",)),
    exp.Month: (_part_of_date, ("this",)),
    exp.Day: (_part_of_date, ("this",)),
    exp.DayOfMonth: (_part_of_date, ("this",)),
    exp.Extract: (_part_of_date, ("this", "expression")),
    exp.StartsWith: (_begins, ("this", "expression")),
    exp.Contains: (_contains, ("this", "expression")),
    exp.EndsWith: (_ends, ("this", "expression")),
    exp.Substring: (_substring, ("this", "start", "length")),
    exp.Left: (_substring, ("this", "expression")),
    exp.Trim: (_trim, ("this", "position")),
    exp.DPipe: (_concat, ("this", "expression", "safe")),
    exp.Concat: (_concat, ("expressions", "safe", "coalesce")),
    exp.TsOrDsToDate: (_to_date, ("this", "safe")),
    exp.TsOrDsAdd: (_add_days, ("this", "expression", "unit")),
    exp.IsNan: (_is_nan, ("this",)),
    exp.Anonymous: (_named, ("this", "expressions")),
    exp.CurrentDate: (_now, ()),
    exp.CurrentTimestamp: (_now, ()),
}
