"""Rows and predicates of every type for property tests, in SQL that Spark and DuckDB read alike."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa

from lakehouse_lib.schema import Field, PrimitiveType, Schema, StructType

NAN = float("nan")
DOUBLES = [NAN, -0.0, 0.0, 1.5, -1.5, 1e300, -1e300, float("inf"), float("-inf"), 2.0, 0.5]
WORDS = ["", "a", "ab", "abc", "b", "é", "z" * 40, "z" * 40 + "a", "z" * 31, "\U0010ffff" * 33, "a%", "a_c", "A"]
MOMENTS = [0, 1, -1, 999, 1000, 1_577_836_801_123_456, 1_577_836_801_123_000, -86_400_000_000, 253_402_300_799_000_000]

VALUES: dict[str, list[Any]] = {
    "byte": [-128, -1, 0, 1, 5, 127],
    "short": [-32768, 0, 5, 32767],
    "integer": [-(2**31), -1, 0, 5, 2**31 - 1],
    "long": [-(2**63), -1, 0, 1, 5, 2**53 + 1, 2**63 - 1],
    "float": [NAN, -0.0, 0.0, 1.5, -1.5, 0.1, float("inf"), 2.0],
    "double": DOUBLES,
    "decimal(5,2)": [Decimal(text) for text in ("-999.99", "-0.01", "0.00", "1.50", "5.00", "999.99")],
    "decimal(38,10)": [
        Decimal(text) for text in ("-12345678901234567.1234567891", "0.0000000001", "1.5", "99999999999")
    ],
    "string": WORDS,
    "binary": [b"", b"a", b"\xff", b"ab"],
    "boolean": [True, False],
    "date": [-719_162, -1, 0, 1, 18_262, 2_932_896],
    "timestamp": MOMENTS,
    "timestamp_ntz": MOMENTS,
}
NAMES = {kind: kind.replace("(", "_").replace(",", "_").rstrip(")") + "_" for kind in VALUES}
SCHEMA = Schema(
    [
        *(Field(NAMES[kind], PrimitiveType(kind)) for kind in VALUES),
        Field("nested_", StructType([Field("inner", "long"), Field("deep", StructType([Field("word", "string")]))])),
    ]
)


def array(values: list[Any], kind: str) -> pa.Array:
    arrow = PrimitiveType(kind).to_arrow()
    if kind == "date":
        return pa.array(values, pa.int32()).cast(arrow)
    if kind.startswith("timestamp"):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us")).cast(arrow)
    return pa.array(values, arrow)


@st.composite
def rows(draw: st.DrawFn, most: int = 6) -> pa.Table:
    count = draw(st.integers(1, most))
    columns = [
        array(draw(st.lists(st.none() | st.sampled_from(VALUES[kind]), min_size=count, max_size=count)), kind)
        for kind in VALUES
    ]
    inner = st.none() | st.fixed_dictionaries(
        {
            "inner": st.none() | st.sampled_from(VALUES["long"]),
            "deep": st.none() | st.fixed_dictionaries({"word": st.none() | st.sampled_from(WORDS)}),
        }
    )
    nested = draw(st.lists(inner, min_size=count, max_size=count))
    columns.append(pa.array(nested, SCHEMA.field("nested_").type.to_arrow()))
    return pa.Table.from_arrays(columns, schema=SCHEMA.to_arrow())


def literal(value: Any, kind: str) -> str:
    """The value as a SQL literal that Spark and DuckDB read alike."""
    if kind in ("float", "double"):
        return f"CAST('{value}' AS {kind.upper()})"
    if kind == "string":
        return f"'{value}'"
    if kind == "boolean":
        return str(value).upper()
    if kind == "date":
        return f"DATE '{dt.date.fromordinal(value + 719_163)}'"
    if kind.startswith("timestamp"):
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
        return f"TIMESTAMP '{moment.isoformat(' ', 'microseconds')}{'+00:00' if kind == 'timestamp' else ''}'"
    return str(value)


def _quoted(value: str) -> bool:
    return "'" not in value and "\\" not in value


@st.composite
def leaf(draw: st.DrawFn, kinds: list[str] | None = None) -> str:
    path, kind = draw(
        st.sampled_from(
            [(NAMES[kind], kind) for kind in kinds or VALUES if kind != "binary"]
            + ([] if kinds else [("nested_.inner", "long"), ("nested_.deep.word", "string")])
        )
    )
    literals = st.sampled_from(VALUES[kind]).map(lambda value: literal(value, kind))
    # Add literals that no value of an integer or decimal column equals.
    if kind in ("byte", "short", "integer", "long", "decimal(5,2)", "decimal(38,10)"):
        literals = literals | st.sampled_from(
            ["0.5", "-1.5", "4.999", "100000000000000000000", "-100000000000000000000", "'5'"]
        )
    if kind == "date":
        literals = literals | st.sampled_from(["'2020-01-01'", "'1970-01-02'"])
    form = draw(st.integers(0, 6))
    if form <= 1:
        operator = draw(st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="]))
        return f"{path} {operator} {draw(literals)}"
    if form == 2:
        return f"{path} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if form == 3:
        values = draw(st.lists(literals | st.just("NULL"), min_size=1, max_size=4))
        return f"{path} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(values)})"
    if form == 4:
        return f"{path} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {draw(literals)} AND {draw(literals)}"
    if form == 5 and kind == "string":
        pattern = draw(st.sampled_from(["a%", "%", "", "a_c", "%b", "_", "zz%a", "é%", "a", "%z", "\U0010ffff%"]))
        return f"{path} {draw(st.sampled_from(['', 'NOT ']))}LIKE '{pattern}'"
    return f"{path} IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {draw(literals | st.just('NULL'))}"


def conditions(kinds: list[str] | None = None) -> st.SearchStrategy[str]:
    return st.recursive(
        leaf(kinds),
        lambda inner: (
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
            )
            | inner.map(lambda condition: f"NOT ({condition})")
        ),
        max_leaves=6,
    )
