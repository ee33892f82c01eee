"""Conditions as SQL text together with their meaning in plain Python, row by row, with SQL's NULL.

This module uses nothing of the library, so the library can be compared with it. A row is a dict of path to value: int
for whole numbers, dates (days since 1970) and timestamps (µs), Decimal, float, str, bytes, bool, None.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st

Row = dict[str, Any]
NAN = float("nan")
DAY = 86_400_000_000
FLOATS = ("float", "double")
WHOLE = ("byte", "short", "integer", "long")
TIMES = ("timestamp", "timestamp_ntz")
DECIMALS = ("decimal(5,2)", "decimal(18,3)", "decimal(38,10)")
KINDS = (*WHOLE, *FLOATS, *DECIMALS, "string", "binary", "boolean", "date", *TIMES)

PATHS = {kind: re.sub(r"[(,]", "_", kind).rstrip(")") + "_" for kind in KINDS}
NESTED = {"`odd name`.inner": "long", "`odd name`.deep.word": "string", "`odd name`.at": "timestamp"}
COLUMNS = {**{path: kind for kind, path in PATHS.items()}, **NESTED}

_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_FLOAT32 = [NAN, -0.0, 0.0, 1.5, -1.5, 0.10000000149011612, float("inf"), float("-inf"), 16777216.0]
_TEXTS = ["", "a", "A", "ab", "abc", "b", "é", "a%", "a_c", "z" * 31, "z" * 32, "z" * 33, "z" * 40 + "a", "\uffff" * 3]
_TEXTS += ["y" * 32 + end for end in ("", "\x7e", "\x7f", "\x80", "\uffee", "\U0001f600", "\U0010ffff", "\U0010ffffa")]
_TEXTS += ["x" * 31 + "\U0001f600", "\U0001f600" * 20, "\U0010ffff" * 70, "w" * 31 + "\U0001f600" + "b"]
_MOMENTS = [0, 1, -1, 999, 1000, 999_999, -1001, DAY - 1, DAY, 1_577_836_801_123_456, 1_577_836_801_123_999]
_MOMENTS += [253_402_300_799_999_999, -62_135_596_800_000_000, 1_709_164_800_000_000]


def values(kind: str) -> st.SearchStrategy[Any]:
    if kind in _BITS:
        top = 1 << (_BITS[kind] - 1)
        return st.sampled_from([-top, -1, 0, 1, 5, top - 1]) | st.integers(-top, top - 1)
    if kind == "float":
        return st.sampled_from(_FLOAT32) | st.floats(width=32)
    if kind == "double":
        return st.sampled_from([*_FLOAT32, 0.1, 1e300, 5e-324]) | st.floats()
    if kind in DECIMALS:
        precision, scale = map(int, re.findall(r"\d+", kind))
        most = 10**precision - 1
        points = st.sampled_from([0, 1, -1, most, -most, 150, 10**scale]) | st.integers(-most, most)
        return points.map(lambda point: decimal_of(point, scale))
    if kind == "string":
        return st.sampled_from(_TEXTS) | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=50)
    if kind == "binary":
        return st.sampled_from([b"", b"a", b"\xff", b"ab"]) | st.binary(max_size=4)
    if kind == "boolean":
        return st.booleans()
    if kind == "date":
        return st.sampled_from([-719_162, -1, 0, 1, 18_262, 19_782, 2_932_896]) | st.integers(-719_162, 2_932_896)
    return st.sampled_from(_MOMENTS) | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def decimal_of(point: int, scale: int) -> Decimal:
    return Decimal((int(point < 0), tuple(map(int, str(abs(point)))), -scale))


def some_columns() -> st.SearchStrategy[dict[str, str]]:
    """A few columns (path -> kind) for a test, because values of all columns would take most of its time."""
    chosen = st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True)
    return chosen.map(lambda paths: {path: COLUMNS[path] for path in paths})


def rows(most: int, columns: dict[str, str]) -> st.SearchStrategy[list[Row]]:
    """Some rows with values of these columns and NULL in the others. A column's values differ, are equal, or are all
    null."""

    def of(count: int) -> st.SearchStrategy[list[Row]]:
        by_path = {path: _column(kind, count) for path, kind in columns.items()}
        return st.fixed_dictionaries(by_path).map(
            lambda drawn: [
                dict.fromkeys(COLUMNS) | {path: column[i] for path, column in drawn.items()} for i in range(count)
            ]
        )

    return st.integers(1, most).flatmap(of)


def _column(kind: str, count: int) -> st.SearchStrategy[list[Any]]:
    non_nulls = values(kind)
    few = st.lists(st.none() | non_nulls, min_size=count, max_size=count)
    return few | st.just([None] * count) | non_nulls.map(lambda value: [value] * count)


# -- the meaning of conditions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    sql: str
    holds: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return self.sql


def compare(operator: str, a: Any, b: Any) -> bool | None:
    """Compare two values; NaN is equal to itself and above every other number."""
    if operator == "<=>" and (a is None or b is None):
        return a is b
    if a is None or b is None:
        return None
    sign = _order(a, b)
    return {
        "=": sign == 0,
        "<=>": sign == 0,
        "!=": sign != 0,
        "<>": sign != 0,
        "<": sign < 0,
        "<=": sign <= 0,
        ">": sign > 0,
        ">=": sign >= 0,
    }[operator]


def _order(a: Any, b: Any) -> int:
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
        if a != a or b != b:
            return (a != a) - (b != b)
        return (a > b) - (a < b)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        a, b = Fraction(a), Fraction(b)
    return (a > b) - (a < b)


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def either(a: bool | None, b: bool | None) -> bool | None:
    return negated(both(negated(a), negated(b)))


def like(text: str | None, pattern: str) -> bool | None:
    """Match a pattern whose only escape is ``\\``."""
    if text is None:
        return None
    parts = re.findall(r"\\(.)|([%_])|([^\\])", pattern, re.DOTALL)
    regex = "".join(
        re.escape(escaped) if escaped else (".*" if wild == "%" else ".") if wild else re.escape(plain)
        for escaped, wild, plain in parts
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


# -- conditions --------------------------------------------------------------------------------------------------------


def text_of(value: Any, kind: str) -> str:
    """A value as a literal in Spark's SQL."""
    if value is None:
        return "NULL"
    if kind in FLOATS:
        return f"CAST('{value}' AS {kind.upper()})"
    if kind == "string":
        return quoted(value)
    if kind == "binary":
        return f"X'{value.hex()}'"
    if kind == "boolean":
        return str(value).upper()
    if kind == "date":
        return f"DATE '{day_text(value)}'"
    if kind in TIMES:
        return f"TIMESTAMP '{moment_text(value)}{'+00:00' if kind == 'timestamp' else ''}'"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def day_text(days: int) -> str:
    return dt.date.fromordinal(days + 719_163).isoformat()


def moment_text(micros: int) -> str:
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    return f"{moment.year:04}" + moment.strftime("-%m-%d %H:%M:%S.%f")


def _zoned(micros: int, minutes: int) -> str:
    sign = "-" if minutes < 0 else "+"
    return (
        f"TIMESTAMP '{moment_text(micros + minutes * 60_000_000)}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}'"
    )


@st.composite
def operand(draw: st.DrawFn, kind: str, pool: list[Any]) -> tuple[str, Any]:
    """(SQL, value) of a literal to compare with a column of this kind; often a value of the pool."""
    candidates = [value for value in pool if value is not None]
    value = draw(st.sampled_from(candidates) if candidates and draw(st.integers(0, 3)) else values(kind))
    how = draw(st.integers(0, 3))
    if how == 0 and kind in (*WHOLE, *DECIMALS):
        with localcontext(prec=80):
            moved = Decimal(value) + draw(st.sampled_from([1, -1, 500, -999, 10**30])) * Decimal("0.001")
        return f"{moved:f}", moved
    if how == 0 and kind in FLOATS and math.isfinite(value) and abs(value) < 1e6:
        text = f"{Decimal(value).quantize(Decimal('0.001')):f}"
        return text, float(text)
    if how == 1 and kind in (*WHOLE, *DECIMALS, "string", "boolean"):
        plain = value if kind == "string" else text_of(value, kind)
        return quoted(plain), value
    if how == 1 and kind == "date":
        return f"'{day_text(value)}'", value
    if how == 1 and kind == "timestamp" and abs(value) < 250_000_000_000_000_000 // 5:
        return _zoned(value, draw(st.sampled_from([330, -210, 60]))), value
    if how == 2 and kind == "timestamp" and abs(value) < 250_000_000_000_000_000 // 5:
        day = value // DAY
        return f"DATE '{day_text(day)}'", day * DAY
    return text_of(value, kind), value


@st.composite
def leaves(draw: st.DrawFn, table_rows: list[Row], columns: dict[str, str]) -> Condition:
    path = draw(st.sampled_from(sorted(columns)))
    kind = columns[path]
    pool = [row[path] for row in table_rows]
    literal = operand(kind, pool)
    operators = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">=", "<=>"])
    forms = ["compare"] * 3 + ["null", "in", "between", "distinct", "coalesce", "case", "flipped"]
    forms += {
        "string": ["like", "starts", "length", "slice"],
        "date": ["year", "month"],
        "boolean": ["is", "bare"],
    }.get(kind, [])
    forms += ["day", "day", "year"] if kind in TIMES else ["wider", "remainder"] if kind in WHOLE[:3] else []
    form = draw(st.sampled_from(forms))
    no = draw(st.booleans())
    maybe = negated if no else (lambda value: value)
    text, value = draw(literal)
    match form:
        case "compare" | "flipped":
            operator = draw(operators)
            if form == "flipped":
                mirror = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
                return Condition(f"{text} {mirror} {path}", lambda row: compare(operator, row[path], value))
            if draw(st.integers(0, 9)) == 0:
                return Condition(f"{path} {operator} NULL", lambda row: compare(operator, row[path], None))
            return Condition(f"{path} {operator} {text}", lambda row: compare(operator, row[path], value))
        case "null":
            return Condition(f"{path} IS {'NOT ' * no}NULL", lambda row: maybe(row[path] is None))
        case "in":
            listed = draw(st.lists(literal | st.just(("NULL", None)), min_size=1, max_size=4))

            def among(row: Row) -> bool | None:
                result: bool | None = False
                for _, member in listed:
                    result = either(result, compare("=", row[path], member))
                return maybe(result)

            return Condition(f"{path} {'NOT ' * no}IN ({', '.join(sql for sql, _ in listed)})", among)
        case "between":
            high_text, high = draw(literal)
            return Condition(
                f"{path} {'NOT ' * no}BETWEEN {text} AND {high_text}",
                lambda row: maybe(both(compare(">=", row[path], value), compare("<=", row[path], high))),
            )
        case "distinct":
            return Condition(
                f"{path} IS {'NOT ' * no}DISTINCT FROM {text}",
                lambda row: (negated if not no else bool)(compare("<=>", row[path], value)),
            )
        case "coalesce":
            other = draw(values(kind))
            operator = draw(operators)
            return Condition(
                f"coalesce({path}, {text_of(other, kind)}) {operator} {text}",
                lambda row: compare(operator, other if row[path] is None else row[path], value),
            )
        case "case":
            other_text, other = draw(literal)
            operator = draw(operators)
            return Condition(
                f"CASE WHEN {path} {operator} {text} THEN {path} = {other_text} ELSE {path} IS NULL END",
                lambda row: (
                    compare("=", row[path], other) if compare(operator, row[path], value) else row[path] is None
                ),
            )
        case "like":
            candidates = [word for word in pool if word]
            stem = draw(st.sampled_from(candidates)) if candidates else value
            stem = stem[: draw(st.integers(0, 40))]
            escaped = re.sub(r"([\\%_])", r"\\\1", stem)
            pattern = draw(
                st.sampled_from([f"{escaped}%", f"%{escaped}", escaped, f"{escaped}_%", f"%{escaped}%", "_"])
            )
            return Condition(f"{path} {'NOT ' * no}LIKE {quoted(pattern)}", lambda row: maybe(like(row[path], pattern)))
        case "starts":
            stem = (value or "a")[:35]
            return Condition(
                f"startswith({path}, {quoted(stem)})",
                lambda row: None if row[path] is None else row[path].startswith(stem),
            )
        case "length":
            return Condition(f"length({path}) > 3", lambda row: None if row[path] is None else len(row[path]) > 3)
        case "slice":
            stem = value[:2]
            return Condition(
                f"substring({path}, 1, 2) = {quoted(stem)}", lambda row: compare("=", _part(row[path], 2), stem)
            )
        case "year" | "month":
            operator = draw(operators)
            number = draw(st.sampled_from([1, 2, 12, 1969, 1970, 2020, 2024, 9999]))
            return Condition(
                f"{form}({path}) {operator} {number}",
                lambda row: compare(operator, _date_part(row[path], kind, form), number),
            )
        case "day":
            operator = draw(operators)
            day = value // DAY
            return Condition(
                f"CAST({path} AS DATE) {operator} DATE '{day_text(day)}'",
                lambda row: compare(operator, None if row[path] is None else row[path] // DAY, day),
            )
        case "wider":
            operator = draw(operators)
            wide = draw(st.sampled_from(["BIGINT", "DOUBLE"]))
            number = draw(st.sampled_from(["0.5", "-1.25", "5", "100", "-128"]))
            return Condition(
                f"CAST({path} AS {wide}) {operator} {number}",
                lambda row: compare(operator, row[path], Decimal(number)),
            )
        case "remainder":
            return Condition(
                f"{path} % 3 = 1", lambda row: None if row[path] is None else int(math.fmod(row[path], 3)) == 1
            )
        case "is":
            return Condition(f"{path} IS {'NOT ' * no}TRUE", lambda row: (row[path] is True) != no)
    return Condition(path, lambda row: row[path])


def _part(text: str | None, length: int) -> str | None:
    return None if text is None else text[:length]


def _date_part(value: int | None, kind: str, part: str) -> int | None:
    if value is None:
        return None
    day = dt.date.fromordinal((value if kind == "date" else value // DAY) + 719_163)
    return int(getattr(day, part))


def conditions(table_rows: list[Row], columns: dict[str, str]) -> st.SearchStrategy[Condition]:
    """Conditions on these columns, with literals that are often values of ``table_rows``."""
    return st.recursive(leaves(table_rows, columns), _joined, max_leaves=5)


def _joined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.tuples(inner, inner).map(
            lambda pair: Condition(
                f"({pair[0].sql} AND {pair[1].sql})", lambda row: both(pair[0].holds(row), pair[1].holds(row))
            )
        ),
        st.tuples(inner, inner).map(
            lambda pair: Condition(
                f"({pair[0].sql} OR {pair[1].sql})", lambda row: either(pair[0].holds(row), pair[1].holds(row))
            )
        ),
        inner.map(lambda condition: Condition(f"NOT ({condition.sql})", lambda row: negated(condition.holds(row)))),
        inner.map(
            lambda condition: Condition(
                f"(({condition.sql}) IS NOT FALSE)", lambda row: condition.holds(row) is not False
            )
        ),
        inner.map(
            lambda condition: Condition(f"(({condition.sql}) IS NULL)", lambda row: condition.holds(row) is None)
        ),
    )
