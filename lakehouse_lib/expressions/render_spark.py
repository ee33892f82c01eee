"""Nodes as Spark SQL with quoted names and typed literals.

Time zone and ANSI mode do not change the result, except that of an ``Opaque`` node, whose SQL stays as it is.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from lakehouse_lib.expressions.ir import (
    TRUE,
    And,
    Arithmetic,
    Assignment,
    Case,
    Cast,
    Column,
    Comparison,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Opaque,
    Or,
    decimal_size,
)
from lakehouse_lib.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from lakehouse_lib.schema.quoting import quoted

_DAY = 86_400_000_000
_OF_DAYS = ("year", "month", "day", "quarter")
_UNIT_MICROS = {"HOUR": _DAY // 24, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}
#: The microseconds after which a part of a time starts again.
_WHOLE = {"hour": _DAY, "minute": _DAY // 24, "second": 60_000_000}
#: Pairs of types that Spark would compare in the session's time zone.
_ZONE_APART = ({"date", "timestamp"}, {"timestamp_ntz", "timestamp"})

_MOST_DIGITS = 38
_SQL_TYPES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def render(node: Node) -> str:
    """A node as SQL for Spark."""
    match node:
        case Column():
            return ".".join(quoted(name) for name in node.path)
        case Literal():
            return _literal(node.value, node.type)
        case Cast():
            return _cast(node)
        case Comparison():
            if {_type_name(node.left), _type_name(node.right)} in _ZONE_APART:
                return f"({_micros(node.left)} {node.operator} {_micros(node.right)})"
            if _passes_38_digits(node.left.type, node.right.type):
                return _by_parts(node)
            return f"({_comparison_operand(node.left)} {node.operator} {_comparison_operand(node.right)})"
        case Arithmetic() if _type_name(node).startswith("decimal"):
            return f"({render(node.left)} {node.operator} {render(node.right)})"
        case Case():
            branches = "".join(f" WHEN {render(when)} THEN {render(then)}" for when, then in node.branches)
            return f"(CASE{branches} ELSE {render(node.otherwise)} END)"
        case Assignment():
            text = render(node.operand)
            return f"CAST({text} AS {_sql_type(node.type)})" if isinstance(node.type, PrimitiveType) else text
        case Arithmetic():
            return f"({_wide(node.left, node.type)} {node.operator} {_wide(node.right, node.type)})"
        case Function():
            return _function(node)
        case Opaque():
            return f"({node.sql})"
        case In():
            values = [_literal(value, node.operand.type) for value in node.values] + ["NULL"] * node.has_null
            return f"({_comparison_operand(node.operand)} IN ({', '.join(values)}))"
        case Like():
            return f"({render(node.operand)} LIKE {_string(node.pattern)} ESCAPE {_string(node.escape)})"
        case IsNull():
            return f"({render(node.operand)} IS NULL)"
        case Not():
            return f"(NOT {render(node.operand)})"
        case And():
            return f"({' AND '.join(map(render, node.operands))})"
        case Or():
            return f"({' OR '.join(map(render, node.operands))})"


def _function(node: Function) -> str:
    """A call. Days and times of a timestamp are those in UTC, whatever the session's time zone is."""
    first = node.arguments[0] if node.arguments else TRUE
    is_timestamp = _type_name(first) == "timestamp"
    match node:
        case Function("substring", (_, start, Literal(value=None))):
            return f"substring({render(first)}, {render(start)})"
        case Function("array" | "map" | "struct"):
            return _constructor(node)
        case Function("element", (_, key)):
            return f"{render(first)}[{render(key)}]"
        case Function("date_trunc", (_, Literal(value=unit))):
            return f"timestamp_micros({_start_of_unit(first, unit)})"
        case Function("hour" | "minute" | "second" as name) if is_timestamp:
            step, whole = _UNIT_MICROS[name.upper()], _WHOLE[name]
            return f"CAST(pmod({_micros(first)}, {whole}L) DIV {step}L AS INT)"
        case Function("add_months", (_, Literal(value=months))) if is_timestamp:
            micros = _micros(first)
            day = f"unix_date(add_months({_day_of(first)}, {months}))"
            return f"timestamp_micros({day} * {_DAY}L + pmod({micros}, {_DAY}L))"
        case Function("add_months", (_, Literal(value=months))) if _type_name(first) == "timestamp_ntz":
            return f"({render(first)} + INTERVAL '{months}' MONTH)"
        case Function("add_micros", (_, Literal(value=micros))):
            if is_timestamp:
                return f"timestamp_micros({_micros(first)} + {micros}L)"
            seconds, rest = divmod(abs(micros), 1_000_000)
            return f"({render(first)} {'-' if micros < 0 else '+'} INTERVAL '{seconds}.{rest:06}' SECOND)"
    parts = (_day_of(argument) if node.name in _OF_DAYS else render(argument) for argument in node.arguments)
    return f"{node.name}({', '.join(parts)})"


def _constructor(node: Function) -> str:
    """An array, a map or a struct whose members have the types of the column."""
    members = [
        f"CAST({render(part)} AS {_sql_type(part.type)})" if isinstance(part.type, PrimitiveType) else render(part)
        for part in node.arguments
    ]
    if isinstance(node.type, StructType):
        pairs = [f"{_string(field.name)}, {member}" for field, member in zip(node.type.fields, members, strict=True)]
        return f"named_struct({', '.join(pairs)})"
    call = f"{node.name}({', '.join(members)})"
    return call if members or node.type is None else f"CAST({call} AS {_sql_type(node.type)})"


def _start_of_unit(node: Node, unit: str) -> str:
    """Microseconds since 1970 of the start of the unit in which a timestamp is."""
    micros = _micros(node)
    if unit in _UNIT_MICROS:
        return f"({micros} - pmod({micros}, {_UNIT_MICROS[unit]}L))"
    day = _day_of(node)
    return f"(unix_date({day if unit == 'DAY' else f'trunc({day}, {_string(unit)})'}) * {_DAY}L)"


def _wide(node: Node, kind: DataType) -> str:
    """An operand, cast to the type of the arithmetic. Spark would calculate in the narrower type of its operands."""
    text = render(node)
    return text if node.type == kind else f"CAST({text} AS {_sql_type(kind)})"


def _sql_type(kind: DataType) -> str:
    match kind:
        case ArrayType():
            return f"ARRAY<{_sql_type(kind.element_type)}>"
        case MapType():
            return f"MAP<{_sql_type(kind.key_type)}, {_sql_type(kind.value_type)}>"
        case StructType():
            return f"STRUCT<{', '.join(f'{quoted(field.name)}: {_sql_type(field.type)}' for field in kind.fields)}>"
    return _SQL_TYPES.get(str(kind), str(kind).upper())


def _cast(node: Cast) -> str:
    kind, source = node.type.type, _type_name(node.operand)
    if source == "timestamp" and kind == "date":
        return _day_of(node.operand)
    if source == "date" and kind == "timestamp":
        return f"timestamp_micros({_micros(node.operand)})"
    return f"CAST({render(node.operand)} AS {_sql_type(node.type)})"


def _type_name(node: Node) -> str:
    return node.type.type if isinstance(node.type, PrimitiveType) else ""


def _day_of(node: Node) -> str:
    """The day in UTC, whatever the session's time zone is."""
    if _type_name(node) != "timestamp":
        return render(node)
    micros = _micros(node)
    return f"date_from_unix_date(CAST(({micros} - pmod({micros}, {_DAY}L)) DIV {_DAY}L AS INT))"


def _micros(node: Node) -> str:
    """Microseconds since 1970 of a date or timestamp, in UTC."""
    text = render(node)
    match _type_name(node):
        case "date":
            return f"(unix_date({text}) * {_DAY}L)"
        case "timestamp_ntz":
            clock = f"hour({text}) * 3600000000L + minute({text}) * 60000000L"
            seconds = f"CAST(extract(SECOND FROM {text}) * 1000000 AS BIGINT)"
            return f"(unix_date(CAST({text} AS DATE)) * {_DAY}L + {clock} + {seconds})"
    return f"unix_micros({text})"


def _passes_38_digits(left: DataType | None, right: DataType | None) -> bool:
    """Whether Spark would round one of two decimals to compare them, because no type of 38 digits holds both."""
    sizes = [_digits(kind) for kind in (left, right)]
    digits = [size for size in sizes if size is not None]
    return len(digits) == 2 and max(whole for whole, _ in digits) + max(scale for _, scale in digits) > _MOST_DIGITS


def _digits(kind: DataType | None) -> tuple[int, int] | None:
    """The numbers of digits before and after the point of a decimal or an integer type; None for other types."""
    size = decimal_size(kind)
    return None if size is None else (size[0] - size[1], size[1])


def _by_parts(node: Comparison) -> str:
    """A comparison of decimals by their floors and, if these are equal, by their fractions (from 0 to below 1)."""
    sizes = (_digits(node.left.type), _digits(node.right.type))
    scale = max(size[1] for size in sizes if size is not None)
    numbers = [
        render(operand) if size is None or size[1] else f"CAST({render(operand)} AS DECIMAL({size[0]},0))"
        for operand, size in zip((node.left, node.right), sizes, strict=True)
    ]
    (a, b), (x, y) = (
        [f"floor({number})" for number in numbers],
        [f"CAST(pmod({number}, CAST(1 AS DECIMAL(1,0))) AS DECIMAL({scale},{scale}))" for number in numbers],
    )
    match node.operator:
        case "=" | "<=>":
            return f"(({a} {node.operator} {b}) AND ({x} {node.operator} {y}))"
        case "!=":
            return f"(({a} != {b}) OR ({x} != {y}))"
    return f"(({a} {node.operator[0]} {b}) OR (({a} = {b}) AND ({x} {node.operator} {y})))"


def _comparison_operand(node: Node) -> str:
    """An operand of a comparison. Zero is added to a floating-point column.

    Without it, Spark compares the column with the statistics of Parquet files. The statistics leave out NaN, although
    NaN is the greatest number, so Spark would skip matching rows.
    """
    text = render(node)
    if isinstance(node, Column) and isinstance(node.type, PrimitiveType) and node.type.type in ("float", "double"):
        return f"({text} + CAST(0 AS {node.type.type.upper()}))"
    return text


def _literal(value: Any, kind: DataType | None) -> str:
    name = kind.type if isinstance(kind, PrimitiveType) else ""
    if value is None:
        return f"CAST(NULL AS {name.upper()})" if name not in ("", "void") else "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if name == "date":
        return f"DATE '{_day(value)}'"
    if name in ("timestamp", "timestamp_ntz"):
        seconds, micros = divmod(value, 1_000_000)
        days, second = divmod(seconds, 86_400)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{micros:06}"
        zone = "Z" if name == "timestamp" else ""
        return f"{'TIMESTAMP' if zone else 'TIMESTAMP_NTZ'} '{_day(days)} {clock}{zone}'"
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value!r}D".replace("e", "E")
        return f"CAST('{'NaN' if value != value else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, int):
        return f"{value}L" if name == "long" else str(value)
    return f"{value:f}BD"


def _day(days: int) -> str:
    # Python's dates end with the year 9999. A literal may be later, such as the midnight after 9999-12-31. Every 400
    # years have the same number of days.
    cycles, day_of_cycle = divmod(days + 719_162, 146_097)
    day = dt.date.fromordinal(day_of_cycle + 1)
    year = day.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{day.month:02}-{day.day:02}"


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
