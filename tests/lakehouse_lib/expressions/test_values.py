"""Values that SET assigns: Arrow gives what Spark gives for the user's own SQL, and what does not fit is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lakehouse_lib.errors import DeltaError, InvalidPredicateError, SchemaMismatchError
from lakehouse_lib.expressions import parse, parse_value, value_of, values_of
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.schema import Field, Schema
from tests.peers import plain

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "i": pa.array([5, -4, None, 0], pa.int32()),
        "k": pa.array([100, -128, None, 127], pa.int8()),
        "l": pa.array([2**62, -7, None, 0], pa.int64()),
        "h": pa.array([0.1, -2.5, None, 1e30], pa.float32()),
        "g": pa.array([-0.0, NAN, None, 1e300], pa.float64()),
        "c": pa.array([Decimal("1.25"), Decimal("-999.99"), None, Decimal("0.05")], pa.decimal128(5, 2)),
        "w": pa.array([Decimal("1.250005"), Decimal("-7.5"), None, Decimal(0)], pa.decimal128(20, 6)),
        "s": pa.array(["a%b", "ÿ\U0001f600", None, ""]),
        "b": pa.array([True, False, None, True]),
        "d": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31), None, dt.date(1, 1, 1)]),
        "o": pa.array([{"x": 1, "y": "p"}, {"x": None, "y": "q"}, None, {"x": 3, "y": None}]),
        "a": pa.array([[1, 2], [], None, [None]], pa.list_(pa.int32())),
        "m": pa.array([[("k", 1)], [], None, [("x", None)]], pa.map_(pa.string(), pa.int64())),
    }
)
SCHEMA = Schema.from_arrow(ROWS.schema)

#: (expression, column): both engines give the same values.
CASES = [
    ("i + 1", "i"),
    ("i * 2 - k", "l"),
    ("-i", "i"),
    ("i / 4", "g"),
    ("g / 0.3", "g"),
    ("l % 3", "l"),
    ("k", "c"),
    ("i", "w"),
    ("i", "h"),
    ("l", "g"),
    ("CASE WHEN l < 1000 THEN l + 1152921573326323713 END", "h"),
    ("h * h", "g"),
    ("h", "g"),
    ("h * 3", "g"),
    ("1 - h", "g"),
    ("h * i", "g"),
    ("(l + 1) * h", "g"),
    ("h * 3.0", "g"),
    ("h * 16777217", "g"),
    ("h / 3", "g"),
    ("c * 1.1", "w"),
    ("i * 0.5", "g"),
    ("k - 0.25", "w"),
    ("c * c + 1", "w"),
    ("c - i", "w"),
    ("c + w", "w"),
    ("w * 1.5", "w"),
    ("c", "i"),
    ("w", "l"),
    ("w", "c"),
    ("c", "g"),
    ("w * 0 + 16777217.0000000001", "h"),  # the nearest float is not that of the nearest double
    ("CASE WHEN h < 100 THEN h ELSE 0 END", "i"),
    ("CASE WHEN l < 1000 THEN l * 8 END", "l"),
    ("CASE i WHEN 5 THEN 1 WHEN -4 THEN 2 ELSE k END", "l"),
    ("if(b, c, w)", "w"),
    ("coalesce(i, k, 7)", "i"),
    ("nullif(s, '')", "s"),
    ("nvl2(i, d, DATE '2020-02-02')", "d"),
    ("concat(s, '-', 'x')", "s"),
    ("s || s", "s"),
    ("substring(s, 1, 2)", "s"),
    ("trim(s)", "s"),
    ("length(s)", "l"),
    ("year(d)", "i"),
    ("i", "s"),
    ("d", "s"),
    ("i > 0 AND b", "b"),
    ("s LIKE 'a%'", "b"),
    ("i IS NULL", "b"),
    ("DATE '2024-01-31'", "d"),
    ("1.5", "c"),
    ("2.7", "i"),
    ("-2.7", "i"),
    ("-0.0", "g"),
    ("-0.0D", "g"),
    ("g * -0.0", "g"),
    ("1.005", "c"),
    ("1e2", "i"),
    ("7", "s"),
    ("CAST(7 AS DECIMAL(3,1))", "s"),
    ("'it\\'s'", "s"),
    ("NULL", "o"),
    ("NULL", "i"),
    ("o", "o"),
    ("a", "a"),
    ("o.x", "l"),
    ("array(i, 7, NULL)", "a"),
    ("array()", "a"),
    ("named_struct('x', l, 'y', upper(s))", "o"),
    ("map('k', i, 's', NULL)", "m"),
    ("CASE WHEN b THEN o END", "o"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("sql", "column"), CASES)
def test_both_engines(spark: Any, sql: str, column: str) -> None:
    from lakehouse_lib.engine.spark.columns import struct_type

    field = SCHEMA.field(column)
    value = parse_value(sql, field, SCHEMA)
    arrow_values = pa.table({"v": values_of({column: value}, ROWS, SCHEMA)[column]})
    frame = spark.createDataFrame(ROWS, struct_type(SCHEMA)).coalesce(1)
    spark_type = struct_type(Schema([field]))[0].dataType.simpleString()
    frame_of_values = frame.selectExpr(
        "id", f"CAST({sql} AS {spark_type}) AS v", f"CAST({value.spark_sql} AS {spark_type}) AS w"
    )
    rows = frame_of_values.orderBy("id").toArrow()
    assert repr(plain(rows.select(["v"]))) == repr(plain(rows.select(["w"]).rename_columns(["v"])))
    assert arrow_values["v"].type == field.type.to_arrow()
    assert list(map(repr, arrow_values["v"].to_pylist())) == list(map(repr, rows["v"].to_pylist()))


@pytest.mark.parametrize(
    ("sql", "column", "code"),
    [
        ("nope + 1", "i", "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
        ("s", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("b", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("g", "c", "DELTA_INVALID_ASSIGNMENT"),
        ("300", "k", "DELTA_INVALID_ASSIGNMENT"),
        ("1000", "c", "DELTA_INVALID_ASSIGNMENT"),
        ("'x'", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("'2024-02-30'", "d", "DELTA_INVALID_ASSIGNMENT"),
        ("1", "o", "DELTA_INVALID_ASSIGNMENT"),
        ("array('x')", "a", "DELTA_INVALID_ASSIGNMENT"),
        ("named_struct('x', 1)", "o", "DELTA_INVALID_ASSIGNMENT"),
        ("named_struct('x', 1, 'y', 'a', 'z', 1)", "o", "DELTA_INVALID_ASSIGNMENT"),
        ("map('k', 1, 'k', 2)", "m", "DELTA_INVALID_ASSIGNMENT"),
        ("o", "a", "DELTA_INVALID_ASSIGNMENT"),
        ("i +", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("sum(i)", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("explode(a)", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("inline(array(o))", "o", "DELTA_INVALID_ASSIGNMENT"),
        ("'a'; 'b'", "s", "DELTA_INVALID_ASSIGNMENT"),
        ("'sNaN'", "g", "DELTA_INVALID_ASSIGNMENT"),
        ("'1_000'", "i", "DELTA_INVALID_ASSIGNMENT"),
        ("CASE WHEN i THEN 1 END", "i", "DELTA_INVALID_ASSIGNMENT"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_a_row_is_read(sql: str, column: str, code: str) -> None:
    with pytest.raises(InvalidPredicateError) as refusal:
        parse_value(sql, SCHEMA.field(column), SCHEMA, table="file:/t")
    assert (refusal.value.code, refusal.value.table) == (code, "file:/t")
    assert repr(column) in refusal.value.message


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("l * 2", "l"),
        ("i * 100", "k"),
        ("-k", "i"),
        ("l / 0", "g"),
        ("l % 0", "l"),
        ("g", "i"),
        ("g", "l"),
        ("w * 1000", "c"),
        ("CASE WHEN b THEN l END", "i"),
    ],
)
def test_a_value_out_of_range_names_the_column(sql: str, column: str) -> None:
    with pytest.raises(SchemaMismatchError) as refusal:
        values_of({column: parse_value(sql, SCHEMA.field(column), SCHEMA)}, ROWS, SCHEMA, table="file:/t")
    assert refusal.value.code == "DELTA_VALUE_OUT_OF_RANGE"
    assert repr(column) in refusal.value.message


@pytest.mark.parametrize(
    ("sql", "column", "expected"),
    [
        ("CASE WHEN l > 1000 THEN 0 WHEN l * 3 > 5 THEN 1 ELSE 2 END", "i", [0, 2, 2, 2]),
        ("CASE WHEN l > 1000 THEN 0 ELSE CASE WHEN l * 8 < 0 THEN l * 8 ELSE 7 END END", "l", [0, -56, 7, 7]),
        ("coalesce(i, l * 1000)", "l", [5, -4, None, 0]),
        ("if((i <> 0 AND 10 / i > 1) IS NULL, 1, 2)", "i", [2, 2, 1, 2]),
        ("NOT (i = 0 OR 10 / i > 1) AND upper(s) IS NOT NULL", "b", [False, True, False, False]),
        ("if(i = 0, 0, 10 / i) + 1", "g", [3.0, -1.5, None, 1.0]),
        ("CASE WHEN b THEN 'x' END", "s", ["x", None, None, "x"]),
    ],
)
def test_a_branch_is_evaluated_for_its_own_rows_only(sql: str, column: str, expected: list[Any]) -> None:
    value = parse_value(sql, SCHEMA.field(column), SCHEMA)
    assert values_of({column: value}, ROWS, SCHEMA)[column].to_pylist() == expected


def test_fields_of_structs_are_assigned_by_name_as_in_delta_spark() -> None:
    for sql, first in (("struct(s AS Y, id AS x)", {"x": 1, "y": "a%b"}), ("if(b, struct(s AS y, 5 AS x), o)", None)):
        values = values_of({"o": parse_value(sql, SCHEMA.field("o"), SCHEMA)}, ROWS, SCHEMA)["o"].to_pylist()
        assert values[0] == (first or {"x": 5, "y": "a%b"})
        assert values[1] == ({"x": 2, "y": "ÿ\U0001f600"} if first else {"x": None, "y": "q"})


@pytest.mark.slow
def test_a_case_with_many_branches() -> None:
    branches = " ".join(f"WHEN {number} THEN 'v{number}'" for number in range(15_000))
    value = parse_value(f"CASE id {branches} END", SCHEMA.field("s"), SCHEMA)
    assert values_of({"s": value}, ROWS, SCHEMA)["s"].to_pylist() == ["v1", "v2", "v3", "v4"]


def test_types_that_differ_in_inner_nullability() -> None:
    strict = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    rows = pa.table(
        {
            "s": pa.array([{"a": 1}, {"a": 2}], strict),
            "t": pa.array([{"a": 7}, None], pa.struct([("a", pa.int32())])),
        }
    )
    schema = Schema.from_arrow(rows.schema)
    for sql, column, expected in (("t", "s", [{"a": 7}, None]), ("coalesce(t, s)", "t", [{"a": 7}, {"a": 2}])):
        value = parse_value(sql, schema.field(column), schema)
        assert values_of({column: value}, rows, schema)[column].to_pylist() == expected


@pytest.mark.parametrize("sql", ["exists(a, y -> y = 1)", "forall(a, y -> y = 1)"])
def test_functions_with_a_lambda_are_not_subqueries(sql: str) -> None:
    assert not is_renderable(parse(sql, SCHEMA).root)


@pytest.mark.parametrize(
    "sql", ["initcap(s)", "s || g", "a[i]", "concat(s, initcap(s))", "CASE WHEN b THEN initcap(s) END"]
)
def test_spark_only_functions_are_refused_by_arrow(sql: str) -> None:
    with pytest.raises(DeltaError) as refusal:
        values_of({"s": parse_value(sql, SCHEMA.field("s"), SCHEMA)}, ROWS, SCHEMA)
    assert refusal.value.code == "DELTA_PREDICATE_NEEDS_SPARK"


def test_nullif_of_a_number_has_the_type_of_the_number_in_spark() -> None:
    value = parse_value("id / nullif(2.50, 0)", Field("v", "decimal(38,10)"), SCHEMA)
    assert not is_renderable(value.root)
    assert "NULLIF(2.50, 0)" in value.spark_sql


@pytest.mark.parametrize(
    ("constant", "column", "expected"),
    [
        (7, "i", 7),
        (True, "b", True),
        (1.5, "c", Decimal("1.50")),
        (Decimal("1.005"), "c", Decimal("1.01")),
        ("it's", "s", "it's"),
        (None, "o", None),
        (dt.date(2024, 5, 6), "d", dt.date(2024, 5, 6)),
        (pa.scalar(7, pa.int64()), "k", 7),
        (float("inf"), "g", float("inf")),
        (dt.date(2024, 5, 6), "s", "2024-05-06"),
        ([1, None], "a", [1, None]),
        ([], "a", []),
        ({"x": 1}, "o", {"x": 1, "y": None}),
        ({"Y": "it's", "X": 2}, "o", {"x": 2, "y": "it's"}),
        ({"k": 1}, "m", [("k", 1)]),
        ([("k", None)], "m", [("k", None)]),
    ],
)
def test_python_values(constant: Any, column: str, expected: Any) -> None:
    value = value_of(constant, SCHEMA.field(column))
    assert values_of({column: value}, ROWS, SCHEMA)[column].to_pylist() == [expected] * 4


@pytest.mark.parametrize("constant", [pd.NaT, pd.NA, Decimal("sNaN"), [1], {"z": 1}, object()])
def test_invalid_python_values_are_refused(constant: Any) -> None:
    for column in ("g", "d", "o"):
        with pytest.raises(InvalidPredicateError) as refusal:
            value_of(constant, SCHEMA.field(column))
        assert refusal.value.code == "DELTA_INVALID_ASSIGNMENT"


def test_a_call_that_would_lose_an_argument_is_refused() -> None:
    with pytest.raises(InvalidPredicateError, match="cannot be written as Spark's SQL again"):
        parse_value("to_char(d, 'yyyy')", Field("v", "string"), Schema([Field("d", "date")]))
