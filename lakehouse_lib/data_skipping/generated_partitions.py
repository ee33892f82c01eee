"""Conditions on generated partition columns, derived from the conditions of a predicate on other columns.

If ``day`` is ``CAST(at AS DATE)``, then ``at >= TIMESTAMP '2026-01-31 10:00:00Z'`` implies ``day >= '2026-01-31'``.
This needs an expression that never decreases while its column grows. Other engines compute days in the time zone of
their session, so the bounds of a timestamp are one day wider on each side. The derived conditions are also true for
null, because the log stores empty text as null.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from lakehouse_lib.errors import InvalidPredicateError, UnsupportedFeatureError
from lakehouse_lib.expressions import Predicate, Value
from lakehouse_lib.expressions.ir import (
    And,
    Assignment,
    Cast,
    Column,
    Comparison,
    Function,
    In,
    IsNull,
    Literal,
    Node,
    Opaque,
    conjunction,
    disjunction,
)
from lakehouse_lib.features.computed_columns import generated_columns
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.schema import PrimitiveType, TableLayout

_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PARTS = ("year", "month", "day", "hour")
#: The name of a column, and not a calculation with it such as ``d + 1``.
_NAME = r"(\w+(\.\w+)*|`[^`]+`)"
#: Expressions that only Spark evaluates, as SQL. They read one column of any time.
_CALLS = (
    re.compile(rf"(?P<name>HOUR)\({_NAME}\)"),
    re.compile(rf"(?P<name>DATE_TRUNC)\('(?P<unit>\w+)', {_NAME}\)"),
    re.compile(rf"(?P<name>DATE_FORMAT)\({_NAME}, '(?P<unit>yyyy(-MM(-dd)?)?)'\)"),
)
_TRUNCATIONS = ("date_trunc", "trunc")
_UNITS = {"YEAR": 1, "YYYY": 1, "YY": 1, "MONTH": 2, "MON": 2, "MM": 2, "DAY": 3, "DD": 3, "HOUR": 4}


class _Range(NamedTuple):
    """The bounds of a column in rows for which a predicate is true.

    Attributes:
        low, high: the least and the greatest value; None: no bound.
        is_null: whether the column is null in all these rows.
    """

    low: Any = None
    high: Any = None
    is_null: bool = False


#: The least and the greatest value of an expression for a range of its column; None: no bound.
_Bounds = tuple[Any, Any]


def with_generated_partitions(predicate: Predicate, layout: TableLayout, protocol: Protocol) -> Predicate:
    """The predicate with the conditions on generated partition columns that it implies; it is true for the same rows.

    Without the feature generatedColumns in the protocol, the predicate stays as it is, because writers need not compute
    generated columns.
    """
    if not layout.partition_columns or not generated_columns.FEATURE.is_supported(protocol):
        return predicate
    implied = list(_implied(predicate, layout))
    return replace(predicate, root=conjunction([predicate.root, *implied])) if implied else predicate


def _implied(predicate: Predicate, layout: TableLayout) -> Iterator[Node]:
    for name in layout.partition_columns:
        field = layout.schema.field(name)
        try:
            value = generated_columns.generated_value(field, layout.schema, predicate.table)
        except (InvalidPredicateError, UnsupportedFeatureError):  # such as a function of another engine
            continue
        root = None if value is None else _call_of(value)
        column = None if root is None else _column_of(root)
        if root is None or column is None or not isinstance(field.type, PrimitiveType):
            continue
        own = Column((field.name,), field.type)
        values = _range_of(predicate.root, column)
        if values.is_null and _is_supported(root):
            yield IsNull(own)
            continue
        low, high = _bounds(root, column, values, field.type)
        parts = [
            Comparison(operator, own, Literal(bound, field.type))
            for operator, bound in ((">=", low), ("<=", high))
            if bound is not None
        ]
        if parts:
            yield disjunction([conjunction([*parts]), IsNull(own)])


def _call_of(value: Value) -> Node:
    """The expression of a value.

    If only Spark knows the type of the expression, its conversion to the type of the column is left out.
    """
    match value.root:
        case Assignment(operand=Opaque() as call):
            return call
    return value.root


def _column_of(root: Node) -> Column | None:
    """The only column that a supported expression reads."""
    match root:
        case Cast(operand=Column() as column):
            return column
        case Function(arguments=(Column() as column, *_)):
            return column
        case Opaque(columns=(column,)):
            return column
    return None


def _is_supported(root: Node) -> bool:
    """Whether bounds of an expression can be derived. Such an expression is null exactly if its column is null."""
    match root:
        case Function(name=name):
            return name in (*_PARTS, *_TRUNCATIONS, "substring")
        case Opaque(sql=sql):
            return any(pattern.fullmatch(sql) for pattern in _CALLS)
    return isinstance(root, Cast)


def _range_of(root: Node, column: Column) -> _Range:
    """The values of a column where a condition is true."""
    lows, highs, is_null = [], [], False
    for part in root.operands if isinstance(root, And) else (root,):
        match part:
            case Comparison(left=left, right=Literal(value=value)) if left == column and value is not None:
                step = 1 if isinstance(value, int) and part.operator in ("<", ">") else 0  # of dates and times
                if part.operator in ("=", "<=>", ">", ">="):
                    lows.append(value + step if step else value)
                if part.operator in ("=", "<=>", "<", "<="):
                    highs.append(value - step if step else value)
            case In(operand=operand, values=values) if operand == column and values:
                lows.append(min(values))
                highs.append(max(values))
            case IsNull(operand=operand) if operand == column:
                is_null = True
    return _Range(max(lows, default=None), min(highs, default=None), is_null)


def _bounds(root: Node, column: Column, values: _Range, kind: PrimitiveType) -> _Bounds:
    """The bounds of an expression of a column, as values of a ``Literal`` of its type."""
    match root:
        case Function("substring", (_, Literal(value=1), Literal(value=length))) if kind.type == "string":
            return _each(values, lambda text: text[:length])
        case Cast(type=PrimitiveType(type="date")) if kind.type == "date":
            return _each(_micros(column, values), lambda micros: micros // _DAY)
        case Function(name=name) if name in _PARTS:
            return _part(name, _micros(column, values))
        case Function(name, (_, Literal(value=unit))) if name in _TRUNCATIONS:
            return _of_truncation(name.upper(), unit, column, values, kind)
        case Opaque(sql=sql):
            call = next((match for match in (pattern.fullmatch(sql) for pattern in _CALLS) if match), None)
            return (None, None) if call is None else _of_call(call, column, values, kind)
    return None, None


def _of_call(call: re.Match[str], column: Column, values: _Range, kind: PrimitiveType) -> _Bounds:
    name = call["name"]
    moments = _micros(column, values, is_local=name in ("DATE_TRUNC", "DATE_FORMAT"))
    if name == "HOUR" and kind.type == "integer":
        return _part("hour", moments)
    if name == "DATE_FORMAT" and kind.type == "string":
        length = {"yyyy": 4, "yyyy-MM": 7, "yyyy-MM-dd": 10}[call["unit"]]
        bounds = _each(moments, lambda micros: _moment(micros).isoformat()[:length])
        # Years above 9999 are written with a sign, which sorts first, and years before 1 are counted backwards.
        return (None, None) if None in bounds else bounds
    return _of_truncation(name, call["unit"], column, values, kind)


def _of_truncation(name: str, unit: str, column: Column, values: _Range, kind: PrimitiveType) -> _Bounds:
    """The bounds of ``date_trunc(unit, time)`` or ``trunc(day, unit)``."""
    count = _UNITS.get(unit.upper())
    if count is None:
        return None, None
    moments = _micros(column, values, is_local=name == "DATE_TRUNC")
    starts = _each(moments, lambda micros: _start(_moment(micros), count))
    if name == "TRUNC" and kind.type == "date":
        return _each(_Range(*starts), lambda micros: micros // _DAY)
    if name == "DATE_TRUNC" and kind.type == column.type.type == "timestamp":
        low, high = starts
        return None if low is None else low - _DAY, None if high is None else high + _DAY
    return starts if name == "DATE_TRUNC" and kind.type == "timestamp_ntz" else (None, None)


def _micros(column: Column, values: _Range, *, is_local: bool = False) -> _Range:
    """The range of a date or a time in microseconds since 1970, wide enough for the time zone of any session.

    Args:
        is_local: widen the range of dates and times without a zone, too, because the session's time zone may have no
            such local time (start of summer time).
    """
    low, high = values.low, values.high
    kind = column.type.type if isinstance(column.type, PrimitiveType) else ""
    if kind not in ("date", "timestamp", "timestamp_ntz"):
        return _Range()
    if kind == "date":
        low, high = None if low is None else low * _DAY, None if high is None else high * _DAY
    if kind == "timestamp" or is_local:
        low, high = None if low is None else low - _DAY, None if high is None else high + _DAY
    return _Range(low, high)


def _part(name: str, moments: _Range) -> _Bounds:
    """The bounds of a part of a time, such as the month.

    Only the year always has bounds. The month has bounds if both times are in the same year, and so on.
    """
    index = _PARTS.index(name)
    low, high = _each(moments, lambda micros: _moment(micros).timetuple()[: index + 1])
    if index and (low is None or high is None or low[:index] != high[:index]):
        return None, None
    return None if low is None else low[index], None if high is None else high[index]


def _each(values: _Range, function: Callable[[Any], Any]) -> _Bounds:
    """The result of the function for each bound; None if the function fails for it, such as for a year above 9999."""

    def bound(value: Any) -> Any:
        try:
            return None if value is None else function(value)
        except OverflowError:
            return None

    return bound(values.low), bound(values.high)


def _moment(micros: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=micros)


def _start(moment: dt.datetime, count: int) -> int:
    """The start of the year, month, day or hour of a time, in microseconds since 1970."""
    month, day = (moment.month if count > 1 else 1), (moment.day if count > 2 else 1)
    hour = moment.hour if count > 3 else 0
    start = moment.replace(month=month, day=day, hour=hour, minute=0, second=0, microsecond=0)
    return (start - _EPOCH) // dt.timedelta(microseconds=1)
