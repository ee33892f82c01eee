"""Predicates on Arrow compared with DuckDB, for the same rows and the same text."""

from __future__ import annotations

import pickle
import time

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import from_filters, matches, parse, to_spark_sql
from lakehouse_lib.schema import Field, Schema
from tests.lakehouse_lib.expressions.predicate_cases import SCHEMA, conditions, rows


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def judged(duck, table: pa.Table, sql: str) -> list[bool | None]:
    duck.register("data", table)
    # DuckDB reads ``a.b`` as a struct's member only if there is no table ``a``.
    answer = duck.execute(f"SELECT ({sql}) AS m FROM data").fetchall()
    return [row[0] for row in answer]


@given(table=rows(), sql=conditions())
def test_agrees_with_duckdb(duck, table, sql):
    predicate = parse(sql, SCHEMA)
    expected = judged(duck, table, sql)
    assert matches(predicate, table).to_pylist() == expected


@given(table=rows(), sql=conditions())
def test_spark_text_means_the_same(table, sql):
    """The SQL for Spark, parsed again, is true for the same rows."""
    predicate = parse(sql, SCHEMA)
    again = parse(to_spark_sql(predicate), SCHEMA)
    assert matches(again, table).equals(matches(predicate, table))
    assert repr(pickle.loads(pickle.dumps(predicate))) == repr(predicate)  # NaN is not equal to itself


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("long_ % 2 = 1", [True, False, None]),
        ("-long_ = -5", [True, False, None]),
        ("long_ + byte_ > 5", [True, False, None]),
        ("coalesce(long_, 7) = 7", [False, False, True]),
        ("length(string_) = 2", [True, False, None]),
        ("year(date_) = 1970", [True, False, None]),
        ("month(timestamp_) = 12", [False, True, None]),
        ("CAST(timestamp_ AS date) = '1969-12-31'", [False, True, None]),
        ("CAST(long_ AS string) = '5'", [True, False, None]),
        ("date_ = DATE '1969-12-01' + INTERVAL 1 MONTH", [True, False, None]),
        ("date_ = date_sub(DATE '1970-01-06', 5)", [True, False, None]),
        ("date_ = date_sub('1970-01-06', 5)", [True, False, None]),
        ("date_ = date_sub(DATE '1969-12-27', -5)", [True, False, None]),
        ("date_ = date_add(DATE '1970-01-07', 3 * -2)", [True, False, None]),
        ("date_ = date_add('1970-01-07', 3 * -2)", [True, False, None]),
        ("date_ = date_sub(TIMESTAMP '1970-01-02 23:00:00-02:00', 2)", [True, False, None]),
        ("date_ < date_sub(current_date(), 30)", [True, True, None]),
        ("date_ < CAST(current_timestamp() AS DATE)", [True, True, None]),
        ("date_ = CAST(TIMESTAMP '1969-12-31 23:59:59.999999Z' AS DATE)", [False, True, None]),
        ("timestamp_ < CAST(DATE '1970-01-01' AS TIMESTAMP)", [False, True, None]),
        ("date_ < TIMESTAMP '1970-01-01 00:00:00.5'", [True, True, None]),
        ("timestamp_ = '1970-01-01T01:00:00+01:00'", [True, False, None]),
        ("timestamp_ > DATE '1969-12-31'", [True, True, None]),
        ("long_ < double_", [True, False, None]),
        ("byte_ < decimal_5_2_", [True, False, None]),
        ("date_ <= timestamp_", [True, True, None]),
        ("byte_ <=> long_", [False, False, True]),
        ("boolean_", [True, False, None]),
        ("NOT boolean_", [False, True, None]),
        ("boolean_ IS NOT TRUE", [False, True, True]),
        ("binary_ = X'61'", [True, False, None]),
        ("string_ LIKE 'a!%' ESCAPE '!'", [True, False, None]),
        (r"string_ LIKE 'a\%'", [True, False, None]),
        ("STRING_ = 'a%'", [True, False, None]),
        ("`long_` = 5L AND 1 = 1", [True, False, None]),
        ("long_ = NULL", [None, None, None]),
        ("TRUE", [True, True, True]),
        ("1 > 2", [False, False, False]),
        ("long_ > CAST('NaN' AS DOUBLE)", [False, False, None]),
        ("1.0 = 'NaN'", [False, False, False]),
        ("1.0 < 'NaN'", [True, True, True]),
        ("'NaN' <=> 1.5", [False, False, False]),
        ("float_ = CAST('0.1' AS FLOAT)", [True, False, None]),
        ("float_ = 0.1", [False, False, None]),
        ("double_ = 'NaN'", [True, False, None]),
    ],
)
def test_the_rest_of_the_language(sql, expected):
    values = {
        "long_": [5, -4, None],
        "byte_": [1, 0, None],
        "string_": ["a%", "b", None],
        "date_": [0, -1, None],
        "timestamp_": [0, -1, None],
        "float_": [0.1, 1.0, None],
        "double_": [float("nan"), -5.0, None],
        "decimal_5_2_": ["1.50", "-1.00", None],
        "boolean_": [True, False, None],
        "binary_": [b"a", b"b", None],
    }
    arrays = {
        name: pa.array(column, pa.string()).cast(pa.decimal128(5, 2))
        if name.startswith("decimal")
        else pa.array(column, pa.int64()).cast("timestamp[us]").cast(pa.timestamp("us", tz="UTC"))
        if name == "timestamp_"
        else pa.array(column, pa.int32()).cast("date32")
        if name == "date_"
        else pa.array(column, SCHEMA.field(name).type.to_arrow())
        for name, column in values.items()
    }
    table = pa.table(arrays)
    assert matches(parse(sql, SCHEMA), table).to_pylist() == expected
    batch = table.to_batches()[0]
    assert matches(parse(sql, SCHEMA), batch).to_pylist() == expected


def test_a_function_that_only_spark_has_is_refused():
    predicate = parse("initcap(string_) = 'A'", SCHEMA)
    assert predicate.columns == {"string_"}
    with pytest.raises(InvalidPredicateError, match=r"only Spark can evaluate 'INITCAP\(string_\)'.*Spark engine"):
        matches(predicate, SCHEMA.to_arrow().empty_table())


def test_a_letter_whose_case_depends_on_the_version_of_unicode_is_refused():
    table = pa.table({"string_": ["ann", "secret ɷ"]})
    with pytest.raises(InvalidPredicateError, match="Unicode differ about upper and lower case of 'ɷ'") as raised:
        matches(parse("upper(string_) = 'X'", SCHEMA), table)
    assert "secret" not in raised.value.message


def test_arithmetic_beyond_a_long_is_refused():
    table = pa.table({"long_": [1, (1 << 63) - 1]})
    with pytest.raises(InvalidPredicateError, match=r"'long_ \+ 1 > 0' cannot be evaluated.*overflow") as raised:
        matches(parse("long_ + 1 > 0", SCHEMA, table="/tables/orders"), table)
    assert raised.value.table == "/tables/orders"
    assert "to the other side" in str(raised.value.hint)


@pytest.mark.slow
def test_ten_thousand_values_are_fast():
    schema = Schema([Field("x", "long")])
    table = pa.table({"x": pa.array(range(1_000_000))})
    started = time.perf_counter()
    predicate = parse(f"x IN ({','.join(map(str, range(0, 20_000, 2)))})", schema)
    assert table.filter(matches(predicate, table)).num_rows == 10_000
    assert time.perf_counter() - started < 30


def test_filters_in_normal_form():
    schema = Schema([Field("x", "long"), Field("s", "string"), Field("d", "date")])
    table = pa.table({"x": [1, 2, 3, None], "s": ["a", "b", "it's", None], "d": pa.array([0, 1, 2, None], pa.date32())})

    def matching_values(filters):
        return table.filter(matches(from_filters(filters, schema), table)).column("x").to_pylist()

    assert matching_values([("x", ">=", 2)]) == [2, 3]
    assert matching_values([("x", ">=", 2), ("s", "=", "b")]) == [2]
    assert matching_values([[("x", "=", "1")], [("s", "=", "it's")]]) == [1, 3]
    assert matching_values([("x", "in", [1, 3, None])]) == [1, 3]
    assert matching_values([("x", "not in", (1, 2))]) == [3]
    assert matching_values([("s", "=", None)]) == [None]
    assert matching_values([("d", "=", "1970-01-02")]) == [2]
    assert to_spark_sql(from_filters([("s", "!=", "it's")], schema)) == r"(`s` != 'it\'s')"
    unusable = [[("x", "=", np.array([1, 2]))], [("x", "=", object())], [("x", "=", "a")], [("x", "in", "ab")]]
    for bad in ([], [[]], [("x", "~", 1)], [("y", "=", 1)], [("x", "=")], *unusable):
        with pytest.raises(InvalidPredicateError):
            from_filters(bad, schema)


def test_partition_filters_equal_those_of_deltalake():
    """deltalake 1.6.6 gives the same answers to the same filters, null included; its values may also be text."""
    schema = Schema([Field("p", "string"), Field("n", "integer"), Field("year", "string"), Field("x", "string")])
    table = pa.table(
        {
            "p": ["a", "b", None],
            "n": pa.array([1, 2, None], pa.int32()),
            "year": ["2021", "2022", None],
            "x": ["", "a", "b"],
            "row": [0, 1, 2],
        }
    )

    def matching_rows(*filters):
        predicate = from_filters(list(filters), schema, partition_columns=["p", "n", "year"])
        return table.filter(matches(predicate, table))["row"].to_pylist()

    assert matching_rows(("p", "=", "")) == [2]
    assert matching_rows(("p", "!=", "")) == [0, 1]
    assert matching_rows(("n", "=", "")) == [2]
    assert matching_rows(("p", "!=", "a")) == [1]
    assert matching_rows(("p", "in", ["", "a"])) == [0]
    assert matching_rows(("p", "not in", ["", "a"])) == []
    assert matching_rows(("p", "not in", ["a"])) == [1]
    assert matching_rows(("n", ">", "1")) == [1]
    assert matching_rows(("n", "in", ["1", 2])) == [0, 1]
    assert matching_rows(("year", "=", 2021)) == [0]
    assert matching_rows(("year", "in", [2021, np.int64(2022)])) == [0, 1]
    assert matching_rows(("x", "=", "")) == [0]  # the empty string is a value in other columns


def test_the_error_of_a_spark_only_condition_names_the_table():
    predicate = parse("initcap(string_) = 'A'", SCHEMA, table="/tables/orders")
    with pytest.raises(InvalidPredicateError) as raised:
        matches(pickle.loads(pickle.dumps(predicate)), SCHEMA.to_arrow().empty_table())
    assert raised.value.table == "/tables/orders"
