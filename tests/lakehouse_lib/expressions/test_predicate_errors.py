"""Text that is not a valid predicate is refused with the reason and a hint."""

from __future__ import annotations

import time

import pytest

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import from_filters, parse, to_spark_sql
from lakehouse_lib.schema import Field, Schema, StructType

SCHEMA = Schema(
    [
        Field("x", "long"),
        Field("customer_id", "long"),
        Field("s", "string"),
        Field("d", "date"),
        Field("t", "timestamp"),
        Field("b", "boolean"),
        Field("st", StructType([Field("q", "long")])),
    ]
)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "is not a SQL condition"),
        ("x =", "syntax error"),
        ("x = -", "syntax error"),
        ("x = 1; DROP TABLE y", "syntax error"),
        ("x = 1 GROUP BY y", "syntax error near 'GROUP BY'"),
        ("x AS y", "syntax error"),
        ("\ud800 = 1", "is half of a surrogate pair"),
        ("nope = 1", "the column 'nope' does not exist.*columns are x, customer_id"),
        ("custmer_id = 1", "the column 'custmer_id' does not exist.*Did you mean customer_id"),
        ("st.z = 1", "the column 'st.z' does not exist.*st.q"),
        ("x.y = 1", "'x' is of type long, which has no members"),
        ("s = 5", "column 's' of type string is compared with the number 5"),
        ("x = 'a'", "column 'x' of type long is compared with the string 'a'"),
        ("x IN (1, 'a')", "compared with the string 'a'"),
        ("x < '1.5'", "column 'x' of type long is compared with the string '1.5'"),
        ("x IN (1, '1e0')", "compared with the string '1e0'"),
        ("x = '9223372036854775808'", "compared with the string '9223372036854775808'"),
        ("1 = '1.0'", "the number 1 is compared with the string '1.0'"),
        ("x = '1_000'", "compared with the string '1_000'"),  # Decimal of Python accepts these two
        ("x = '٣'", "compared with the string '٣'"),
        ("x = 'sNaN'", "compared with the string 'sNaN'"),
        ("x = CAST('1_000' AS BIGINT)", "'1_000' is not a number"),
        ("d = '1995-02-30'", "compared with the string '1995-02-30'"),
        ("x = CAST(300 AS TINYINT)", "the number 300 is out of the range of type byte"),
        ("x = CAST('12345' AS DECIMAL(5,2))", r"the string '12345' is out of the range of type decimal\(5,2\)"),
        ("d = DATE '1995-02-30'", "'1995-02-30' is not a valid date"),
        ("d = to_date('1995-02-30')", "'1995-02-30' is not a valid date"),
        ("d < to_date('31.01.2024')", "'31.01.2024' is not a valid date"),
        ("d < to_date('2024-01 10:00:00')", "'2024-01 10:00:00' is not a valid date"),
        ("t < '2024-06-300'", "compared with the string '2024-06-300'"),  # not a month and the zone -3:00
        ("t < '2024-01-0515'", "compared with the string '2024-01-0515'"),
        ("t < '2024-01-05 10:00:00+18:01'", "compared with the string"),
        ("t < '2024-01-05 10:00:00 UTC+99:00'", "compared with the string"),
        ("t < '2024-01-05 10:00:00+02:60'", "compared with the string"),
        ("d = 5", "compared with the number 5"),
        ("b = 1", "compared with the number 1"),
        ("x = s", "compared with column 's'"),
        ("st = 1", "cannot be compared"),
        ("x", "is not a condition"),
        ("x + 1", "is not a condition"),
        ("NOT s", "is not a condition"),
        ("1", "is not a condition"),
        ("sum(x) > 1", "cannot be evaluated for a single row"),
        ("x IN (SELECT 1)", "cannot be evaluated for a single row"),
        ("EXISTS (SELECT 1)", "cannot be evaluated for a single row"),
        ("row_number() OVER () > 1", "cannot be evaluated for a single row"),
        ("x = ?", "cannot be evaluated for a single row"),
        ("year() = 1", "syntax error"),
        ("mod(x) = 1", "syntax error"),
        ("map(s)[0] = 1", "syntax error"),
        ("sum(regexp_replace(s, s)) = 1", "cannot be written as Spark's SQL again"),
        (
            "CAST(t AS TIME) IS NULL",
            "the type TIME is not supported.*Use a type that tables have",
        ),
        ("t::time < '10:00:00'", "the type TIME is not supported"),
        ("TRY_CAST(s AS TIME(3)) IS NULL", r"the type TIME \( 3 \) is not supported"),
        ("size(CAST(NULL AS ARRAY<TIME>)) = 1", "the type TIME is not supported"),
        ("CAST(NULL AS STRUCT<at: TIME>).at IS NULL", "the type TIME is not supported"),
        ("CAST(t AS DATETIME) IS NULL", "the type DATETIME is not supported"),
        ("CAST(s AS UUID) = 'a'", "the type UUID is not supported"),
        ("CAST(x AS TEXT) = 'a'", "the type TEXT is not supported"),
        ("t = CAST(s AS TIMESTAMP WITH TIME ZONE)", "the type TIMESTAMP WITH TIME ZONE is not supported"),
        ("t = CAST(s AS TIMESTAMP(3))", r"the type TIMESTAMP \( 3 \) is not supported"),
        ("t < now() - INTERVAL 6 m", "an INTERVAL has 'M'.*INTERVAL 1 DAY"),
        ("t - INTERVAL '6 m' < t", "an INTERVAL has 'M'"),
        ("t - INTERVAL '6' q < t", "an INTERVAL has 'Q'"),
        ("t < now() - INTERVAL 1 QUARTER", "an INTERVAL has 'QUARTER'"),
        ("t < now() - INTERVAL 1 DAY 2 h", "an INTERVAL has 'H'"),
        ("t - INTERVAL '- 1 day' < t", "an INTERVAL has '- 1 day'"),
        ("t - INTERVAL '.5 second' < t", "an INTERVAL has '.5 second'"),
        ("dateadd(M, 1, d) > d", "the column 'M' does not exist"),
        ("x LIKE 'a'", "column 'x' of type long is matched with LIKE"),
        ("s LIKE 'a\\\\b'", "does not precede % or _"),
        ("x = " + "(" * 5000 + "1" + ")" * 5000, "syntax error|nested too deeply"),
    ],
)
def test_refused(sql, reason):
    with pytest.raises(InvalidPredicateError, match=reason) as raised:
        parse(sql, SCHEMA, table="/tables/orders")
    assert raised.value.table == "/tables/orders"
    assert raised.value.hint
    assert repr(sql[:20])[:-1] in str(raised.value)


@pytest.mark.parametrize("sql", [None, 5, b"x = 1", ["x = 1"], True])
def test_a_predicate_that_is_not_text_is_refused(sql):
    with pytest.raises(
        InvalidPredicateError, match=r"the predicate .* is not valid: it is not a SQL condition"
    ) as raised:
        parse(sql, SCHEMA, table="/tables/orders")
    assert raised.value.table == "/tables/orders"
    assert str(sql) in str(raised.value)
    assert raised.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "x IN (" + ",".join(map(str, range(300_000))) + ")",
        "s = '" + "a" * 1_000_000 + "'",
        "x = " + "9" * 1_000_000,
        "(" * 1000 + "b" + ")" * 1000,
        "(" * 300_000,
        "NOT " * 1000 + "b",
        "NOT " * 200_000 + "b",
        "x" + " + x" * 1000 + " > 1",
        "x" + " + x" * 150 + " > 1",
        "x" + " + x" * 30_000 + " > 1",
        "x = " + "- " * 100_000 + "1",
        "CASE WHEN b THEN " * 1000 + "b" + " END" * 1000,
        "coalesce(" * 1000 + "x" + ")" * 1000 + " = 1",
        "upper(" * 1000 + "s" + ")" * 1000 + " = 'a'",
        "x" + " IS NULL" * 1000,
        "x" + ".y" * 10_000 + " = 1",
        "x" + "[1]" * 1000 + " = 1",
        "x" + "::bigint" * 1000 + " = 1",
        "x = 1e" + "9" * 1000,
        "s LIKE '" + "\\" * 1001 + "'",
        "`" * 100_001,
        "/*" * 10_000,
    ],
    ids=lambda sql: f"{sql[:12]}-{len(sql)}",
)
def test_absurd_sizes_are_refused_quickly(sql):
    started = time.process_time()
    with pytest.raises(InvalidPredicateError) as raised:
        parse(sql, SCHEMA, table="/tables/orders")
    assert time.process_time() - started < 10
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    "sql",
    [
        " OR ".join(f"x = {number}" for number in range(2000)),
        "coalesce(" * 20 + "x" + ", 1)" * 20 + " = 1",
        "CASE WHEN b THEN " * 20 + "x" + " END" * 20 + " = 1",
        "CASE x " + " ".join(f"WHEN {number} THEN b" for number in range(100)) + " END",
        "(" * 25 + "b" + ")" * 25,
    ],
    ids=lambda sql: f"{sql[:12]}-{len(sql)}",
)
def test_conversions_do_not_multiply_the_length(sql):
    started = time.process_time()
    assert len(to_spark_sql(parse(sql, SCHEMA))) < 50 * len(sql)
    assert time.process_time() - started < 10


def test_filters_with_half_a_character_are_refused() -> None:
    with pytest.raises(InvalidPredicateError, match=r"half of a surrogate pair.*Decode"):
        from_filters([("s", "in", ["a", "\ud800"])], SCHEMA)
