"""Rows that a table does not allow are refused by both engines, although Spark's own writer would write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, InvalidArgumentError, SchemaMismatchError, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.spark.engine import SparkEngine
from tests.peers import parquet_files

WHOLE = pa.field("x", pa.int64(), nullable=False)
ELEMENT = pa.field("element", pa.int64(), nullable=False)
NESTED: list[tuple[pa.Field, str, str]] = [
    (pa.field("c", pa.struct([pa.field("x", pa.int64())]), nullable=False), "struct<x: bigint>", "null"),
    (pa.field("c", pa.struct([WHOLE])), "struct<x: bigint>", "named_struct('x', null)"),
    (pa.field("c", pa.list_(pa.int64()), nullable=False), "array<bigint>", "null"),
    (pa.field("c", pa.list_(ELEMENT)), "array<bigint>", "array(1, null)"),
    (pa.field("c", pa.list_(pa.struct([WHOLE]))), "array<struct<x: bigint>>", "array(null, named_struct('x', null))"),
    (
        pa.field("c", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
        "map<string, bigint>",
        "map('k', null)",
    ),
]


@pytest.mark.parametrize(("column", "kind", "value"), NESTED, ids=[f"{kind} {value}" for _, kind, value in NESTED])
def test_a_null_that_is_not_allowed_is_refused(
    tmp_path: Path, spark: Any, column: pa.Field, kind: str, value: str
) -> None:
    DeltaTable.create(tmp_path, pa.schema([pa.field("k", pa.int64()), column]))
    frame = spark.sql(f"SELECT 1L AS k, CAST({value} AS {kind}) AS C")
    for engine, rows in ((SparkEngine(spark), frame), (ArrowEngine(), frame.toArrow())):
        with pytest.raises(SchemaMismatchError, match=f"(?i)c.*null.*{tmp_path}"):
            write_deltalake(tmp_path, rows, mode="append", engine=engine)
    assert not parquet_files(tmp_path)
    assert DeltaTable(tmp_path).version() == 0


def test_binaries_that_no_folder_can_be_named_by_are_refused(tmp_path: Path, spark: Any) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("b", pa.binary())])
    DeltaTable.create(tmp_path, schema, partition_by=["b"])
    # One task: a second task could still write a file after the first one has failed and the files were deleted.
    frame = spark.sql("SELECT k, CASE k WHEN 0 THEN X'FE' WHEN 1 THEN X'C3A9' END AS b FROM range(0, 3, 1, 1) AS t(k)")
    for engine, rows in ((SparkEngine(spark), frame), (ArrowEngine(), frame.toArrow())):
        with pytest.raises(InvalidArgumentError, match=r"a binary partition value.* is not UTF-8"):
            write_deltalake(tmp_path, rows, mode="append", engine=engine)
    assert not parquet_files(tmp_path)
    write_deltalake(tmp_path, frame.where("k > 0"), mode="append", engine=SparkEngine(spark))
    columns = DeltaTable(tmp_path).to_pyarrow_table().sort_by("k").to_pydict()
    assert columns == {"k": [1, 2], "b": ["é".encode(), None]}


def test_binaries_that_look_like_escapes_of_other_bytes_are_refused(tmp_path: Path, spark: Any) -> None:
    """They would be read as these bytes: a DELETE of one value would remove the rows of both."""
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("b", pa.binary())])
    DeltaTable.create(tmp_path, schema, partition_by=["b"])
    rows = pa.table({"k": [0, 1, 2], "b": [b"\\u0041", b"A", b"\\u0041\n"]}, schema)
    frame = spark.createDataFrame(rows).coalesce(1)
    for engine, data in ((SparkEngine(spark), frame), (ArrowEngine(), rows)):
        with pytest.raises(InvalidArgumentError, match=r"column b: .* looks like escapes of other bytes") as refused:
            write_deltalake(tmp_path, data, mode="append", engine=engine)
        assert refused.value.code == "DELTA_INVALID_PARTITION_VALUE"
    assert not parquet_files(tmp_path)
    write_deltalake(tmp_path, frame.where("k > 0"), mode="append", engine=SparkEngine(spark))
    table = DeltaTable(tmp_path)
    assert sorted(table.to_pyarrow_table()["b"].to_pylist()) == [b"A", b"\\u0041\n"]
    table.delete("b = X'41'")
    assert table.to_pyarrow_table()["k"].to_pylist() == [2]


def test_a_partition_text_that_is_not_utf8_is_refused(tmp_path: Path, spark: Any) -> None:
    frame = spark.sql("SELECT k, CASE k WHEN 0 THEN CAST(X'FF' AS STRING) END AS s FROM range(0, 2, 1, 1) AS t(k)")
    with pytest.raises(SchemaMismatchError, match=r"column s has text that is not UTF-8; expected UTF-8"):
        write_deltalake(tmp_path, frame, partition_by=["s"], engine=SparkEngine(spark))
    assert not parquet_files(tmp_path)
    write_deltalake(tmp_path, frame.where("k > 0"), partition_by=["s"], engine=SparkEngine(spark))
    assert DeltaTable(tmp_path).to_pyarrow_table()["s"].to_pylist() == [None]


def test_nulls_beside_refused_values_are_written(tmp_path: Path, spark: Any) -> None:
    inside = pa.struct([WHOLE, pa.field("y", pa.list_(ELEMENT))])
    DeltaTable.create(tmp_path, pa.schema([pa.field("c", inside), pa.field("d", pa.list_(inside), nullable=False)]))
    frame = spark.sql(
        "SELECT CAST(c AS struct<x: bigint, y: array<bigint>>) AS c, array(c) AS d "
        "FROM VALUES (null), (named_struct('x', 1L, 'y', null)), (named_struct('x', 1L, 'y', array(2L))) AS t(c)"
    )
    write_deltalake(tmp_path, frame, mode="append", engine=SparkEngine(spark))
    rows = DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    assert {str(row["c"]) for row in rows} == {"None", "{'x': 1, 'y': None}", "{'x': 1, 'y': [2]}"}
    assert all(row["d"] == [row["c"]] for row in rows)


@pytest.mark.parametrize(
    ("value", "what"), [("repeat('%', 90)", "folder name of more than 255 bytes"), ("'a\\0b'", "NUL")]
)
def test_partition_values_that_no_folder_can_be_named_by_are_refused(
    tmp_path: Path, spark: Any, value: str, what: str
) -> None:
    frame = spark.sql(
        f"SELECT k, CASE k WHEN 0 THEN {value} ELSE repeat('x', 250) END AS s FROM range(0, 2, 1, 1) AS t(k)"
    )
    with pytest.raises(InvalidArgumentError, match=rf"column s: .*{what}.*{tmp_path}.*another column"):
        write_deltalake(tmp_path, frame, partition_by=["s"], engine=SparkEngine(spark))
    assert not parquet_files(tmp_path)
    write_deltalake(tmp_path, frame.where("k > 0"), partition_by=["s"], engine=SparkEngine(spark))
    assert DeltaTable(tmp_path).to_pyarrow_table()["s"].to_pylist() == ["x" * 250]
