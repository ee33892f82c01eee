"""All NaN are equal, and both zeros are equal: both engines agree with Spark's own SQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake

# Quiet NaN of both signs (x86 returns the negative one for 0.0 / 0.0), one with a payload, and a signalling NaN.
DOUBLES = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8DEADBEEF0001, 0x7FF0000000000001]
FLOATS = [0x7FC00000, 0xFFC00000, 0x7FC0BEEF, 0x7F800001]
NUMBERS = [0.0, -0.0, 1.0, 5.0, float("inf"), float("-inf")]
NAN, NAN32 = "CAST('NaN' AS DOUBLE)", "CAST('NaN' AS FLOAT)"

LISTS = [f"{NAN}", f"{NAN}, 1", f"{NAN}, NULL", f"{NAN32}, 0.1", "0, 1", "-0.0", f"-0.0, {NAN}, NULL", "1, NULL"]
LISTS.append(", ".join(map(str, range(-8, 8))))  # Spark looks up a list of this length by hash
CONDITIONS = [
    *(f"{operand} {no}IN ({listed})" for operand in ("d", "f", "s.d") for no in ("", "NOT ") for listed in LISTS),
    *(f"d * 1 {no}IN ({listed})" for no in ("", "NOT ") for listed in (LISTS[0], LISTS[3], LISTS[4], LISTS[8])),
    f"d + 0 IN ({NAN}, 5)",
    f"coalesce(d, {NAN}) NOT IN ({NAN}, 5)",
    f"NOT (d IN ({NAN}) AND f IN ({NAN32}))",
    f"d = {NAN}",
    f"f <=> {NAN32}",
    "d = f",
    "d = s.d",
    "d = -0.0",
    "d >= 0 AND d <= -0.0",
    "d > 5",
    "d BETWEEN 5 AND CAST('NaN' AS DOUBLE)",
]


def _column(bits: list[int], kind: str, dtype: str) -> pa.Array:
    values = np.concatenate([np.array(bits, kind).view(dtype), np.array(NUMBERS, dtype)])
    return pa.concat_arrays([pa.array(values, from_pandas=False), pa.nulls(1, pa.from_numpy_dtype(dtype))])


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> DeltaTable:
    doubles = _column(DOUBLES, "u8", "f8")
    floats = _column(FLOATS, "u4", "f4")
    rows = pa.table(
        {
            "id": pa.array(range(len(doubles)), pa.int64()),
            "d": doubles,
            "f": floats,
            "s": pa.StructArray.from_arrays([doubles.take(pa.array(np.arange(len(doubles))[::-1]))], ["d"]),
        }
    )
    uri = str(tmp_path_factory.mktemp("nan") / "t")
    write_deltalake(uri, rows)
    return DeltaTable(uri)


@pytest.fixture(scope="module")
def expected(table, spark) -> dict[str, list[int]]:
    """The rows that Spark itself finds, without this library and without Parquet's statistics."""
    pushdown = "spark.sql.parquet.filterPushdown"
    spark.conf.set(pushdown, "false")
    try:
        rows = spark.read.parquet(*(f"file:{uri}" for uri in table.file_uris()))
        return {sql: sorted(row["id"] for row in rows.where(sql).collect()) for sql in CONDITIONS}
    finally:
        spark.conf.unset(pushdown)


def test_the_arrow_engine_finds_what_spark_finds(table, expected):
    assert {sql: sorted(table.to_pyarrow_table(filters=sql)["id"].to_pylist()) for sql in CONDITIONS} == expected


def test_the_spark_engine_finds_what_spark_finds(table, expected, spark):
    matches = {sql: sorted(row["id"] for row in table.to_spark(spark, filters=sql).collect()) for sql in CONDITIONS}
    assert matches == expected


def test_filter_lists(table, expected):
    ids = table.to_pyarrow_table(filters=[("d", "not in", [float("nan"), 1.0])])["id"]
    assert sorted(ids.to_pylist()) == expected[f"d NOT IN ({NAN}, 1)"]


@pytest.mark.parametrize("partition_by", [None, "x"])
def test_a_delete_keeps_every_nan(tmp_path, engine, partition_by):
    x = np.array([*DOUBLES[:3], 0x3FF0000000000000, 0x8000000000000000], "u8").view("f8")
    rows = pa.table({"id": range(5), "x": pa.array(x, from_pandas=False)})
    write_deltalake(tmp_path / "t", rows, partition_by=partition_by)
    table = DeltaTable(tmp_path / "t", engine=engine)
    assert table.delete(f"x NOT IN ({NAN}, 0)")["num_deleted_rows"] == 1
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 4]
