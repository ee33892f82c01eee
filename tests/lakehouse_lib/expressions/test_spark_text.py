"""SQL that only Spark evaluates means in Spark what the user wrote."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import sqlglot

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import parse, to_spark_sql
from lakehouse_lib.expressions.namespace import MergeNamespace
from lakehouse_lib.expressions.parsing.grammar.syntax import spark_sql
from lakehouse_lib.expressions.parsing.source_parts import with_source_columns
from lakehouse_lib.schema import ArrayType, Field, Schema

SCHEMA = Schema(
    [
        Field("id", "long"),
        Field("x", "double"),
        Field("s", "string"),
        Field("b", "boolean"),
        Field("n", "timestamp_ntz"),
        Field("a", ArrayType("integer")),
    ]
)
#: Rows of the schema, as SQL.
ROWS = """VALUES
    (1L, 1000D, 'ab', FALSE, TIMESTAMP_NTZ '2024-01-10 00:00:00', ARRAY(1)),
    (7L, 8D, 'b', TRUE, TIMESTAMP_NTZ '2024-01-10 04:00:00', NULL)
AS rows(id, x, s, b, n, a)"""


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("n - INTERVAL 1 DAY 2 HOURS < TIMESTAMP_NTZ '2024-01-09 01:00:00'", [1]),
        ("n + INTERVAL 1 DAY 2 HOURS 30 MINUTES = TIMESTAMP_NTZ '2024-01-11 06:30:00'", [7]),
        ("n + (- INTERVAL 1 DAY 2 HOURS) < TIMESTAMP_NTZ '2024-01-09 01:00:00'", [1]),
        ("upper(CAST(regexp_like(s, 'a') = b AS STRING)) = 'TRUE'", []),
        ("abs(10 * mod(id, 4)) = 30", [7]),
        ("log10(x) = 3", [1]),
        ("log2(x) = 3", [7]),
        ("array_size(a) = 1", [1]),
        ("'9' || id + 1 = 92", [1]),
        ("id || id - 1 = 10", [1]),
        ("b = b < b", []),
        ("b <> b <= b", [1, 7]),
        ("b = (id = 1) IS NULL", []),
        ("-1::string = '-1'", [1, 7]),
        ("-1L::string || id = '-17'", [7]),
        ("-x < -999.5BD", [1]),
        ("shiftleft(id, 1) + 1 = 3", [1]),
        ("n < localtimestamp()", [1, 7]),
        ("trunc(CAST(n AS DATE), 'w') IS NULL", [1, 7]),
        ("date_trunc('MS', n) IS NULL", [1, 7]),
        ("n + INTERVAL '+1 day' = TIMESTAMP_NTZ '2024-01-11 04:00:00'", [7]),
        ("current_catalog() = 'spark_catalog'", [1, 7]),
        ("session_user() IS NULL", []),
        ("n = CAST('2024-01-10 04:00:00+04:00' AS TIMESTAMP WITHOUT TIME ZONE)", [7]),
    ],
)
def test_spark_reads_the_same_expression(spark: Any, sql: str, expected: list[int]) -> None:
    rows = spark.sql(f"SELECT * FROM {ROWS}")
    for text in (sql, to_spark_sql(parse(sql, SCHEMA))):
        assert sorted(row.id for row in rows.where(text).collect()) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "b = b BETWEEN FALSE AND b",
        "b BETWEEN FALSE AND b = b",
        "b > b NOT IN (TRUE)",
        "b = s LIKE 'a%'",
        "b <=> b = b",
        "id | 1 & id = 1",
        "id & 1 ^ id | 1 & 1 = 1",
        "s || 'A' COLLATE UTF8_LCASE = 'aba'",
        "+s = '1'",
        "+1::string = '1'",
    ],
)
def test_operators_that_spark_reads_in_another_order_are_refused(sql: str) -> None:
    with pytest.raises(InvalidPredicateError, match=r"Write parentheses|Leave out the plus sign"):
        parse(sql, SCHEMA)


def test_functions_keep_their_names() -> None:
    for call in ("LOG10(x)", "ARRAY_SIZE(a)", "TRUNC(n, s)", "DATE_TRUNC(s, n)", "DATE_TRUNC('M', n)"):
        assert call in to_spark_sql(parse(f"{call} > 1", SCHEMA))


def test_a_part_of_a_merge_is_the_same_expression() -> None:
    names = MergeNamespace(SCHEMA, Schema([Field("at", "timestamp_ntz")]), ("t", "s"))
    columns: dict[str, str] = {}
    with_source_columns("t.n < unix_micros(s.at - INTERVAL 1 DAY 2 HOURS)", names, columns)
    assert list(columns.values()) == ["UNIX_MICROS(s.at - (INTERVAL '1' DAY + INTERVAL '2' HOURS))"]


def test_a_text_with_other_operands_is_refused() -> None:
    tree = sqlglot.parse_one("n - INTERVAL 1 DAY 2 HOURS", dialect="spark")
    with pytest.raises(InvalidPredicateError, match=r"another expression.*Write parentheses"):
        spark_sql(tree)


def test_a_call_without_a_required_argument_is_left_to_spark() -> None:
    assert "SUBSTRING(s)" in to_spark_sql(parse("substring(s) = 'a'", SCHEMA))


def test_a_negative_decimal_is_a_literal() -> None:
    assert to_spark_sql(parse("x > -1.5BD", SCHEMA)) == to_spark_sql(parse("x > -1.5", SCHEMA))


def test_literals_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        parse("get_json_object(s, '$.ann@example.com[') = 'a'", SCHEMA, label="of a person")
    assert "ann" not in caplog.text
