"""Decimals without a common type of 38 digits are compared exactly; both engines agree with Python's decimals."""

from __future__ import annotations

import operator
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.expressions import parse, to_spark_sql

_DIGITS = {"a": (5, 2), "k": (38, 0), "v": (38, 37), "f": (38, 38), "w": (38, 10), "s": (20, 19)}
_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": operator.eq,
}


def _edges(precision: int, scale: int) -> list[Decimal | None]:
    """Both extremes, zero and its neighbours, and ones and halves if the type has them."""
    most = 10**precision - 1
    unit = 10**scale
    points = {0, 1, -1, most, -most, unit, -unit, unit + 1, -unit - 1, unit // 2, -(unit // 2), 3 * unit - 1}
    with localcontext(prec=80):
        return [*(Decimal(point).scaleb(-scale) for point in sorted(points) if abs(point) <= most), None]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> DeltaTable:
    """A table in which every pair of edges of any two decimal columns is in some row."""
    edges = {name: _edges(*digits) for name, digits in _DIGITS.items()}
    rows = [
        (name, other, x, y)
        for name in edges
        for other in edges
        if name < other
        for x in edges[name]
        for y in edges[other]
    ]
    columns: dict[str, pa.Array] = {"id": pa.array(range(len(rows)), pa.int64())}
    for name, digits in _DIGITS.items():
        values = [x if name == first else y if name == second else None for first, second, x, y in rows]
        columns[name] = pa.array(values, pa.decimal128(*digits))
    longs = [None if value is None else int(value) for value in columns["a"].to_pylist()]
    columns["l"] = pa.array(longs, pa.int64())
    columns["d"] = pa.array(
        [None if value is None else float(value) for value in columns["a"].to_pylist()], pa.float64()
    )
    uri = str(tmp_path_factory.mktemp("decimals") / "t")
    write_deltalake(uri, pa.table(columns))
    return DeltaTable(uri)


def _expected(table: DeltaTable, left: str, sign: str, right: str) -> list[int]:
    ids = []
    for row in table.to_pyarrow_table(columns=["id", left, right]).to_pylist():
        a, b = row[left], row[right]
        if a is None or b is None:
            if sign == "<=>" and a is b:
                ids.append(row["id"])
        elif _OPERATORS[sign](a, b):
            ids.append(row["id"])
    return sorted(ids)


_PAIRS = [("a", "k"), ("k", "v"), ("f", "v"), ("l", "v"), ("s", "k")]
_COMPARISONS = [(a, sign, b) for a, b in _PAIRS for sign in _OPERATORS]


def test_columns_on_both_engines(table, spark):
    expected = {comparison: _expected(table, *comparison) for comparison in _COMPARISONS}
    on_arrow = {
        comparison: sorted(table.to_pyarrow_table(filters=" ".join(comparison))["id"].to_pylist())
        for comparison in _COMPARISONS
    }
    assert on_arrow == expected
    frame = table.to_spark(spark)
    flags = frame.selectExpr(
        "id",
        *(
            f"({_rendered(table, ' '.join(comparison))}) AS `{number}`"
            for number, comparison in enumerate(_COMPARISONS)
        ),
    )
    rows = flags.collect()
    on_spark = {
        comparison: sorted(row["id"] for row in rows if row[str(number)])
        for number, comparison in enumerate(_COMPARISONS)
    }
    assert on_spark == expected


def _rendered(table: DeltaTable, sql: str) -> str:
    return to_spark_sql(parse(sql, table._snapshot.schema))


@pytest.mark.parametrize(
    "sql",
    [
        "a IN (k, v)",
        "a NOT BETWEEN v AND k",
        "CASE WHEN a > k THEN a = v ELSE k IS NULL END",
        "coalesce(a, 0) = k",
        "a = 0.01",
        "v > 1.5",
        "k < 99999999999999999999999999999999999998.5",
        "w IN (0.5, 1.5, '-1.0000000001')",
        "a = d",
        "d >= w",
    ],
)
def test_conditions_on_both_engines(table, spark, sql):
    on_arrow = sorted(table.to_pyarrow_table(filters=sql)["id"].to_pylist())
    assert sorted(row["id"] for row in table.to_spark(spark, filters=sql).collect()) == on_arrow
    assert on_arrow or "IN (k" in sql


def test_a_preview_and_its_delete_agree(tmp_path, engine):
    """Rounded to 38 digits before the point, as in the other column, 0.01 would be 0."""
    rows = {"id": [1, 2], "c": [Decimal("0.01"), Decimal(0)], "k": pa.array([Decimal(0)] * 2, pa.decimal128(38, 0))}
    write_deltalake(tmp_path / "t", pa.table({**rows, "c": pa.array(rows["c"], pa.decimal128(5, 2))}))
    table = DeltaTable(tmp_path / "t", engine=engine)
    assert table.to_pyarrow_table(filters="c = k")["id"].to_pylist() == [2]
    assert table.delete("c = k")["num_deleted_rows"] == 1
    assert table.to_pyarrow_table()["id"].to_pylist() == [1]


def test_a_decimal_beside_a_double_is_the_nearest_double(tmp_path, engine):
    texts = ["0.95", "-5.27", "1.50", "999.99", "0.07"]
    numbers = [Decimal(text) for text in texts]
    write_deltalake(
        tmp_path / "t", pa.table({"c": pa.array(numbers, pa.decimal128(5, 2)), "d": list(map(float, texts))})
    )
    table = DeltaTable(tmp_path / "t", engine=engine)
    assert table.delete("c = d")["num_deleted_rows"] == 5
