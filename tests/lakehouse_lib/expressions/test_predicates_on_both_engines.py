"""The same rows on both engines as in plain Python, in a Spark session whose time zone is not UTC."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import parse
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from lakehouse_lib.table.write import write_deltalake

NAN = float("nan")


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three rows in two files: for each type a value, an extreme value and NULL."""
    uri = str(tmp_path_factory.mktemp("both") / "t")
    # Times in UTC. In New York the first does not exist, and its date is a day earlier.
    moments = [moment("2024-03-10T02:30:00.123456"), moment("1969-12-31T23:59:59.999999")]
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "i": pa.array([5, -4, None], pa.int32()),
            "j": pa.array([1_000_000_000, 1, None], pa.int32()),
            "l": pa.array([2**53 + 1, -(2**63), None], pa.int64()),
            "y": pa.array([Decimal(10**27 - 1), Decimal(-7), None], pa.decimal128(27, 0)),
            "f": pa.array([NAN, 0.5, None], pa.float32()),
            "h": pa.array([0.1, 1.0, None], pa.float32()),
            "g": pa.array([-0.0, NAN, None], pa.float64()),
            "c": pa.array([Decimal("1.50"), Decimal("-999.99"), None], pa.decimal128(5, 2)),
            "s": pa.array(["a%b", "y" * 32 + "\U0001f600", None]),
            "b": pa.array([True, False, None]),
            "d": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]),
            "t": pa.array([value.replace(tzinfo=dt.UTC) for value in moments] + [None], pa.timestamp("us", tz="UTC")),
            "n": pa.array([*moments, None], pa.timestamp("us")),
            "odd-name": pa.array([{"in-side": 7}, {"in-side": None}, None], pa.struct([("in-side", pa.int64())])),
        }
    )
    write_deltalake(uri, rows.slice(0, 1))
    write_deltalake(uri, rows.slice(1), mode="append")
    return load_snapshot(open_store(uri))


CASES = {
    "f > 100": [1],
    "f = CAST('NaN' AS FLOAT)": [1],
    "NOT (f <= 100)": [1],
    "isnan(g)": [2],
    "g = 0": [1],
    "g <=> NULL": [3],
    "g NOT IN (0, 1)": [2],
    "c > 1.499": [1],
    "c IN (1.5, NULL)": [1],
    "c NOT IN (1.5, NULL)": [],
    "i IS DISTINCT FROM 5": [2, 3],
    "i BETWEEN -4.5 AND 4": [2],
    "i NOT BETWEEN -4.5 AND 4": [1],
    "i % 3 = -1": [2],
    "i * j > 3000000000": [1],  # the product of two integers is a long
    "h * h < 0.0100000005": [1],  # the product of two floats is a double
    "coalesce(i, 0) = 0": [3],
    "coalesce(h, 0.5) + 0 = 0.5": [3],
    "coalesce(h, 0.1) + 0 = 0.1": [3],  # a double
    "coalesce(h, f, 1e-3) + 0 = 1e-3": [3],
    "coalesce(h, g) + 0 = g": [],
    "isnan(coalesce(h, CAST('NaN' AS FLOAT)) + 0)": [3],
    "nullif(i, 5) IS NULL": [1, 3],
    "CASE WHEN i > 0 THEN b ELSE i IS NULL END": [1, 3],
    "CASE i WHEN 5 THEN 'x' WHEN -4 THEN 'y' END = 'y'": [2],
    "if(b, i, 7) = 7": [2, 3],
    "(i > 0) IS NOT TRUE": [2, 3],
    "s LIKE 'a\\%%'": [1],
    "s LIKE 'a!%_' ESCAPE '!'": [1],
    "s > 'y\U0010ffff'": [],
    "startswith(s, 'yy')": [2],
    "contains(s, '%')": [1],
    "s LIKE ANY ('a%', '%\U0001f600')": [1, 2],
    "s NOT LIKE ALL ('a%', 'b%')": [2],
    "substring(s, 1, 2) = 'a%'": [1],
    "s || 'x' = 'a%bx'": [1],
    "length(s) = 33": [2],
    "b": [1],
    "b IS NOT FALSE": [1, 3],
    "1e-1 = '0.1'": [1, 2, 3],  # as doubles
    "'0.1' < 1e-1": [],
    "l = 9007199254740992e0": [1],  # as doubles
    "l = 9007199254740992.0": [],
    "l != 9007199254740993e0": [2],
    "NOT l < 9007199254740993e0": [1],
    "l <=> -9223372036854775807e0": [2],
    "l BETWEEN 5 AND 9007199254740992e0": [1],
    "l IN (9007199254740992, 1e0)": [1],
    "l NOT IN (9007199254740993e0)": [2],
    "l < 1e300": [1, 2],
    "y >= 1e27": [1],
    "y > 1e27": [],
    "y IN (1e27, -7)": [1, 2],
    "d = '2024-02-29'": [1],
    "d = to_date('2024-02-29 10:00:00')": [1],
    "d <= date('2024-02-29T23:59:59-05:00')": [1, 2],
    "d < '2024-02-29 00:00:01'": [2],  # a comparison of dates
    "d IN ('2024-02-29 x', '2024-1')": [1],
    "d = date_sub('2024-03-05 10:00:00', 5)": [1],
    "d < t": [1, 2],
    "d < n": [1, 2],
    "t = n": [1, 2],
    "n >= t AND t >= n": [1, 2],
    "CAST(t AS DATE) = '2024-03-10'": [1],
    "CAST(t AS DATE) <=> DATE '1969-12-31'": [2],
    "month(t) = 12": [2],
    "year(t) = 2024": [1],
    "day(t) = 10": [1],
    "year(n) <= 1969": [2],
    "t = '2024-03-09 21:30:00.123456 America/New_York'": [1],
    "t BETWEEN '2024-03-10T02:30:00.123455Z' AND TIMESTAMP '2024-03-10 04:30:00.123456+02:00'": [1],
    "n = TIMESTAMP_NTZ '2024-03-10 02:30:00.123456'": [1],
    "n = TIMESTAMP '2024-03-10 04:30:00.123456+02:00'": [1],
    "d >= DATE '2024-03-31' - INTERVAL 1 MONTH": [1],
    "d = date_sub(DATE '2024-03-05', 5)": [1],
    "d = date_sub('2024-03-05', 5)": [1],
    "d = date_add(DATE '2024-03-06', 3 * -2)": [1],
    "d < date_sub(current_date(), 30)": [1, 2],
    "d = date_sub(TIMESTAMP '2024-03-01 23:00:00-02:00', 2)": [1],
    "d <= CAST(TIMESTAMP '1970-01-01 01:00:00+02:00' AS DATE)": [2],
    "t < CAST(DATE '2024-03-10' AS TIMESTAMP)": [2],
    "t < current_timestamp() - INTERVAL 1 DAY": [1, 2],
    "`odd-name`.`in-side` = 7": [1],
    "`odd-name` IS NULL": [3],
    "`odd-name`.`in-side` IS NULL": [2, 3],
    "CAST(i AS STRING) = '-4'": [2],
    "CAST(d AS TIMESTAMP) = TIMESTAMP '2024-02-29 00:00:00Z'": [1],
    "TRY_CAST(NULL AS DATE) = d": [],
    "d = TRY_CAST('2024-02-29 10:00:00' AS DATE)": [1],
    "i <=> TRY_CAST(300 AS TINYINT)": [3],
    "i <=> TRY_CAST(12345 AS DECIMAL(3,0))": [3],
    "i <=> TRY_CAST('12345678901234567890' AS BIGINT)": [3],
    "i > -128Y": [1, 2],
    "s ILIKE 'A%'": [1],
    "upper(s) LIKE 'A%'": [1],
    "date_add(d, 1) = DATE '2024-03-01'": [1],
    "date_sub(d, 1) = DATE '2024-02-28'": [1],
    "t + INTERVAL 1 DAY < n + INTERVAL 2 DAYS": [1, 2],
    "date_trunc('month', t) = '2024-03-01T00:00:00Z'": [1],
    "hour(t) = 2 AND minute(t) = 30": [1],
    "abs(i) = 4": [2],
    "i DIV 2 = 2": [1],
    "greatest(i, 0) = 0": [2, 3],
    "i > 0 AND 10 / i = 2": [1],
    "i < 0 AND b AND i / 0 = 2": [],
    "CASE WHEN i > 0 THEN i ELSE 0 END + 1 = 6": [1],
    "j / nullif(i - 5, 0) < 0": [2],
}  # fmt: skip


@pytest.mark.parametrize("sql", CASES)
def test_arrow(table, sql):
    from lakehouse_lib.engine.arrow.engine import ArrowEngine

    matches = ArrowEngine().read(table, ["id"], parse(sql, table.schema)).read_all()
    assert sorted(matches["id"].to_pylist()) == CASES[sql]


def test_spark(table, spark):
    from lakehouse_lib.engine.spark.engine import SparkEngine

    engine = SparkEngine(spark)
    matches = {}
    for sql in CASES:
        rows = engine.read(table, ["id"], parse(sql, table.schema)).collect()
        matches[sql] = sorted(row["id"] for row in rows)
    assert matches == CASES


# A string's zone does not count if it is compared with a timestamp without zone; the result is that of Spark's SQL.
ZONES_OF_STRINGS = {
    "n = '2024-03-10 02:30:00.123456 America/New_York'": [1],
    "n = '2024-03-10 02:30:00.123456+05:00'": [1],
    "n IN ('2024-03-10 02:30:00.123456Z', '1969-12-31 23:59:59.999999-08:00')": [1, 2],
    "n BETWEEN '1969-12-31 23:59:59-08:00' AND '1970-01-01 00:00:00+08:00'": [2],
    "n > '2024-03-10 02:30:00.123455+18:00'": [1],
    "n = CAST('2024-03-10 02:30:00.123456-03:30' AS TIMESTAMP_NTZ)": [1],
    "n = TIMESTAMP_NTZ '2024-03-10 02:30:00.123456+01:00'": [1],
}


def test_zones_of_strings_beside_timestamps_without_one(table, spark):
    from lakehouse_lib.engine.arrow.engine import ArrowEngine
    from lakehouse_lib.engine.spark.engine import SparkEngine

    files = spark.read.parquet(*(f"file:{table.store.root}/{path}" for path in table.files["path"].to_pylist()))
    for sql, expected in ZONES_OF_STRINGS.items():
        parsed = parse(sql, table.schema)
        on_arrow = ArrowEngine().read(table, ["id"], parsed).read_all()["id"].to_pylist()
        on_spark = [row["id"] for row in SparkEngine(spark).read(table, ["id"], parsed).collect()]
        judge = [row["id"] for row in files.where(sql).select("id").collect()]
        assert [sorted(on_arrow), sorted(on_spark), sorted(judge)] == [expected] * 3, sql


SPARK_ONLY = {
    "s RLIKE '^y+'": [2],
    "initcap(s) LIKE 'A%'": [1],
    "CAST(s AS INT) IS NULL": None,
    "sign(i) = -1": [2],
    "TRY_CAST('nonsense' AS DATE) = d": [],
    "coalesce(n, d) > '2024-02-29 10:00:00'": [1],  # the text becomes the common type of the branches
    "n > TRY_CAST('2024-01-01 00' AS TIMESTAMP_NTZ)": [1],
    "f < TRY_CAST('1.5d' AS DOUBLE)": [2],
}


def test_spark_only_conditions_keep_their_files_and_are_refused_by_arrow(table, spark):
    from lakehouse_lib.engine.arrow.engine import ArrowEngine
    from lakehouse_lib.engine.spark.engine import SparkEngine

    for sql, expected in SPARK_ONLY.items():
        predicate = parse(sql, table.schema)
        assert table.prune(predicate).num_rows == 2, sql
        with pytest.raises(InvalidPredicateError, match="only Spark can evaluate"):
            ArrowEngine().read(table, ["id"], predicate).read_all()
        if expected is not None:
            rows = SparkEngine(spark).read(table, ["id"], predicate).collect()
            assert sorted(row["id"] for row in rows) == expected, sql
