"""Readers of functions of dates and times; a reader returns None for a call that only Spark can evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lakehouse_lib.expressions.ir import Cast, Function, Literal, Node
from lakehouse_lib.expressions.parsing.arithmetic import MICROS, MONTHS, shift
from lakehouse_lib.expressions.parsing.casts import cast
from lakehouse_lib.expressions.parsing.common_types import type_in_spark
from lakehouse_lib.expressions.parsing.comparison import TEMPORAL
from lakehouse_lib.expressions.parsing.literals import small_integer
from lakehouse_lib.schema import PrimitiveType

#: Makes the node of a part of the tree.
Read = Callable[[Any], Node]

_DATE = PrimitiveType("date")
_INTEGER = PrimitiveType("integer")
_LONG = PrimitiveType("long")
_STRING = PrimitiveType("string")
_PARTS_OF_DATE = ("year", "month", "day", "quarter")
_PARTS_OF_TIME = (*_PARTS_OF_DATE, "hour", "minute", "second")
#: The names of units in ``date_trunc`` and ``trunc``.
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in ("QUARTER", "WEEK", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}
_UNITS_OF_DATE = ("YEAR", "QUARTER", "MONTH", "WEEK")


def _part(tree: Any, read: Read) -> Node | None:
    if isinstance(tree, exp.Extract):
        name, inner = str(tree.this).lower(), tree.expression
    else:
        name, inner = type(tree).__name__.lower(), tree.this
    name = {"dayofmonth": "day"}.get(name, name)
    operand = read(inner.this if isinstance(inner, exp.TsOrDsToDate) else inner)
    if isinstance(operand, Literal) or not isinstance(operand.type, PrimitiveType):
        return None
    if isinstance(tree, exp.Extract) and name == "second":  # with a fraction
        return None
    names = _PARTS_OF_DATE if operand.type == _DATE else _PARTS_OF_TIME if operand.type.type in TEMPORAL else ()
    return Function(name, (operand,), _INTEGER) if name in names else None


def _truncation(tree: Any, read: Read) -> Node | None:
    name = tree.args["unit"].name.upper() if tree.args.get("unit") is not None else ""
    unit, operand = _UNITS.get(name), read(tree.this)
    if isinstance(tree, exp.DateTrunc):
        day = _day(operand)
        is_supported = unit in _UNITS_OF_DATE and day is not None
        return Function("trunc", (day, Literal(unit, _STRING)), _DATE) if is_supported and day is not None else None
    # Spark converts a date or a timestamp_ntz to a timestamp in the session's time zone.
    if unit is None or operand.type != PrimitiveType("timestamp") or isinstance(operand, Literal):
        return None
    return Function("date_trunc", (operand, Literal(unit, _STRING)), operand.type)


def _to_date(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    return None if operand.type == _STRING and not isinstance(operand, Literal) else cast(operand, _DATE)


def _sum_of_days(tree: Any, read: Read) -> Node | None:
    operand = read(tree.this)
    if str(tree.args.get("unit") or "DAY") != "DAY":
        return None
    days = _whole_product(tree.expression, read)
    if days is not None:
        literal = cast(operand, _DATE)
        moved = shift(literal, days, "DAY") if literal is not None else None
        return moved or add_days(operand, Literal(days, _INTEGER))
    # sqlglot turns date_sub(d, n) into date_add(d, n * -1).
    product = tree.expression
    is_sub = isinstance(product, exp.Mul) and _whole_product(product.expression, read) == -1
    return add_days(operand, read(product.this.unnest() if is_sub else product), is_sub=is_sub)


def _whole_product(tree: Any, read: Read) -> int | None:
    """The product of whole numbers."""
    if not isinstance(tree, exp.Mul):
        return small_integer(read(tree))
    left, right = _whole_product(tree.this, read), _whole_product(tree.expression, read)
    return None if left is None or right is None else left * right


def add_days(operand: Node, days: Node, *, is_sub: bool = False) -> Node | None:
    """A day plus or minus some days; None if only Spark can evaluate it."""
    day, kind = _day(operand), type_in_spark(days)
    if day is None or kind != days.type or str(kind) not in ("byte", "short", "integer"):
        return None
    return Function("date_sub" if is_sub else "date_add", (day, days), _DATE)


def _difference(tree: Any, read: Read) -> Node | None:
    parts = [read(part) for part in (tree.this, tree.expression)]
    days = [part if part.type == _DATE else _day(part) for part in parts]
    operands = tuple(day for day in days if day is not None)
    is_constant = all(isinstance(part, Literal) for part in parts)
    return Function("datediff", operands, _INTEGER) if len(operands) == 2 and not is_constant else None


def _months_later(tree: Any, read: Read) -> Node | None:
    day, months = _day(read(tree.this)), read(tree.expression)
    count = small_integer(months)
    count_node = months if count is None else Literal(count, _INTEGER)
    if day is None or count_node.type != _INTEGER or type_in_spark(count_node) != _INTEGER:
        return None
    return Function("add_months", (day, count_node), _DATE)


def _last_day(tree: Any, read: Read) -> Node | None:
    day = _day(read(tree.this)) if tree.args.get("unit") is None else None
    return None if day is None else Function("last_day", (day,), _DATE)


def _day(node: Node) -> Node | None:
    """A date, or a time as a date; None for a literal or another type."""
    if isinstance(node, Literal) or not isinstance(node.type, PrimitiveType) or node.type.type not in TEMPORAL:
        return None
    return node if node.type == _DATE else Cast(node, _DATE)


def add_interval(operand: Node, interval: Any, *, is_sub: bool) -> Node | None:
    """A date or a time plus or minus an INTERVAL of literals; None if only Spark can evaluate it."""
    parts = _parts(interval)
    if parts is None or not isinstance(operand.type, PrimitiveType) or operand.type.type not in TEMPORAL:
        return None
    units = {unit in MONTHS for _, unit in parts}
    if len(units) > 1:  # Spark refuses years with days
        return None
    sign = -1 if is_sub else 1
    if isinstance(operand, Literal):
        return shift(operand, sign * parts[0][0], parts[0][1]) if len(parts) == 1 else None
    if units == {True}:
        months = sign * sum(count * MONTHS[unit] for count, unit in parts)
        return Function("add_months", (operand, Literal(months, _INTEGER)), operand.type)
    micros = sign * sum(count * MICROS[unit] for count, unit in parts)
    if operand.type == _DATE:
        in_days = all(unit in ("DAY", "WEEK") for _, unit in parts)
        return add_days(operand, Literal(micros // MICROS["DAY"], _INTEGER)) if in_days else None
    return Function("add_micros", (operand, Literal(micros, _LONG)), operand.type)


def _parts(tree: Any) -> list[tuple[int, str]] | None:
    """The numbers and units of an INTERVAL."""
    tree = tree.unnest()
    if isinstance(tree, exp.Add):
        left, right = _parts(tree.this), _parts(tree.expression)
        return None if left is None or right is None else left + right
    if not isinstance(tree, exp.Interval) or not isinstance(tree.args.get("unit"), exp.Var):
        return None
    unit = tree.args["unit"].name.upper().rstrip("S")
    text = tree.this.name if isinstance(tree.this, exp.Literal) else ""
    digits = text.removeprefix("-").removeprefix("+")
    if unit not in MICROS and unit not in MONTHS:
        return None
    return [(int(text), unit)] if digits.isascii() and digits.isdigit() and len(digits) < 8 else None


def is_interval(tree: Any) -> bool:
    """Whether a tree is an INTERVAL, or the sum of intervals as which sqlglot reads one with several units."""
    tree = tree.unnest()
    return isinstance(tree, exp.Interval) or (isinstance(tree, exp.Add) and is_interval(tree.this))


#: By sqlglot's class: the reader of the function, and the arguments of the tree that the reader supports.
READERS: dict[Any, tuple[Callable[[Any, Read], Node | None], tuple[str, ...]]] = {
    **dict.fromkeys(
        (exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.Quarter, exp.Hour, exp.Minute, exp.Second),
        (_part, ("this",)),
    ),
    exp.Extract: (_part, ("this", "expression")),
    exp.AddMonths: (_months_later, ("this", "expression")),
    exp.DateDiff: (_difference, ("this", "expression")),
    exp.DateTrunc: (_truncation, ("this", "unit")),
    exp.LastDay: (_last_day, ("this",)),
    exp.TimestampTrunc: (_truncation, ("this", "unit")),
    exp.TsOrDsAdd: (_sum_of_days, ("this", "expression", "unit")),
    exp.TsOrDsToDate: (_to_date, ("this", "safe")),
}
