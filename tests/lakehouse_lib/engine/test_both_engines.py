"""The results of both engines, compared with delta-rs and DuckDB."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, InvalidArgumentError, ObjectNotFoundError, SchemaMismatchError, write_deltalake
from lakehouse_lib.engine.base import Engine
from tests.peers import parquet_files, plain, read_delta_rs, read_duckdb, read_engine
from tests.table_builder import longs

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "text": pa.array(["a b/%", "é=ü", None, "", "01"]),
        "day": pa.array([dt.date(1, 1, 1), dt.date(2024, 2, 29), None, dt.date(9999, 12, 31), dt.date(1970, 1, 1)]),
        "at": pa.array([0, -1, None, 253402300799999999, 1_700_000_000_000_001], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("-1.10"), Decimal("0.00"), None, Decimal("99999999.99"), Decimal("2.50")]),
        "ratio": pa.array([1.5, float("inf"), None, float("nan"), -0.5]),
        "flag": pa.array([True, False, None, True, False]),
        "blob": pa.array([b"\x00\xff", b"", None, b"x", b"y"], pa.binary()),
        "list": pa.array([[1, None], [], None, [2], [3]], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)], [], None, [("é", None)], [("z", 3)]], pa.map_(pa.string(), pa.int64())),
        "nested": pa.array([{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None, {"a": 2, "b": {"c": None}}, None]),
    }
)


def judged(engine: Engine, uri: Path, version: int | None = None) -> pa.Table:
    """The rows of a version, on which all four readers agree."""
    table = DeltaTable(uri, version, engine=engine)
    our_rows = read_engine(engine, table)
    assert our_rows == read_delta_rs(uri, version)
    assert our_rows == read_duckdb(uri, version)
    return our_rows


def put(engine: Engine, uri: Path, rows: pa.Table, **how: Any) -> None:
    write_deltalake(uri, rows, engine=engine, **how)


def test_every_type_survives(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path / "t", ROWS)
    assert DeltaTable(tmp_path / "t").schema().to_arrow().equals(ROWS.schema)
    # DuckDB defines no place of NaN in the order of rows, so NaN is replaced before tables are compared.
    read = read_engine(engine, DeltaTable(tmp_path / "t"))
    assert read.drop_columns(["ratio"]) == plain(ROWS).drop_columns(["ratio"])
    assert str(read["ratio"].to_pylist()) == str(plain(ROWS)["ratio"].to_pylist())
    put(engine, tmp_path / "u", ROWS.drop_columns(["ratio"]))
    assert judged(engine, tmp_path / "u") == plain(ROWS.drop_columns(["ratio"]))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["text", "at", "price", "day", "flag", "id"])
def test_partition_values_are_the_logs(tmp_path: Path, engine: Engine, by: str) -> None:
    # delta-rs 1.6.6 cannot read the folder of a negative decimal.
    rows = ROWS.drop_columns(["ratio"]).filter(pc.fill_null(pc.greater_equal(ROWS["price"], Decimal("0.00")), True))
    put(engine, tmp_path, rows, partition_by=by)
    put(engine, tmp_path, rows, mode="append")
    expected = pa.concat_tables([rows, rows])
    if by == "text":  # partition values in the log cannot be the empty string
        empty = pc.equal(expected["text"], "")
        expected = expected.set_column(1, "text", pc.if_else(empty, pa.scalar(None, pa.string()), expected["text"]))
    table = DeltaTable(tmp_path)
    assert table.metadata().partition_columns == [by]
    assert read_engine(engine, table) == plain(expected)
    assert read_delta_rs(tmp_path) == plain(expected)
    assert read_engine(engine, table, where=f"{by} IS NULL", columns=["blob", by]) == plain(
        expected.filter(pc.is_null(expected[by])).select(["blob", by])
    )


def test_one_table_written_by_both_engines(tmp_path: Path, engine: Engine, spark: Any) -> None:
    rows = pa.table({"k": ["x", "x y", None], "v": [1, 2, 3]})
    write_deltalake(tmp_path, rows, partition_by=["k"])
    for _ in range(2):
        write_deltalake(tmp_path, spark.createDataFrame(rows), mode="append")
    assert judged(engine, tmp_path) == plain(pa.concat_tables([rows] * 3))
    assert read_engine(engine, DeltaTable(tmp_path), where="k = 'x y' AND v > 1")["v"].to_pylist() == [2, 2, 2]


@pytest.mark.slow
def test_overwrite_and_older_versions(tmp_path: Path, engine: Engine) -> None:
    first, second = pa.table({"a": [1, 2]}), pa.table({"a": [3]})
    put(engine, tmp_path, first)
    put(engine, tmp_path, second, mode="overwrite")
    put(engine, tmp_path, first, mode="append")
    assert judged(engine, tmp_path, 0) == plain(first)
    assert judged(engine, tmp_path, 1) == plain(second)
    assert judged(engine, tmp_path) == plain(pa.table({"a": [1, 2, 3]}))


def test_evolution_adds_columns_and_nested_fields(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"a": [1], "s": [{"x": 1}], "l": [[{"x": 1}]]}))
    wider = pa.table({"S": [{"y": "n", "x": 2}], "b": ["new"], "A": [2], "l": [[{"x": 2, "y": True}]]})
    with pytest.raises(SchemaMismatchError, match=r"s\.y.*b is .*, expected no such column"):
        put(engine, tmp_path, wider, mode="append")
    assert DeltaTable(tmp_path).version() == 0
    put(engine, tmp_path, wider, mode="append", schema_mode="merge")
    assert DeltaTable(tmp_path).schema().names == ["a", "s", "l", "b"]
    assert judged(engine, tmp_path).to_pylist() == [
        {"a": 1, "s": {"x": 1, "y": None}, "l": [{"x": 1, "y": None}], "b": None},
        {"a": 2, "s": {"x": 2, "y": "n"}, "l": [{"x": 2, "y": True}], "b": "new"},
    ]


@pytest.mark.slow
def test_a_schema_can_be_overwritten_with_the_rows(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"a": [1]}))
    rows = pa.table({"b": ["x", "y"], "c": [1, 2]})
    put(engine, tmp_path, rows, mode="overwrite", schema_mode="overwrite", partition_by="b")
    assert DeltaTable(tmp_path).metadata().partition_columns == ["b"]
    assert judged(engine, tmp_path) == plain(rows)
    assert judged(engine, tmp_path, 0).to_pylist() == [{"a": 1}]


@pytest.mark.slow
def test_no_rows_make_a_commit_without_files(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"a": [1]}))
    put(engine, tmp_path, longs(a=[]), mode="append")
    assert DeltaTable(tmp_path).version() == 1
    assert len(parquet_files(tmp_path)) == 1
    assert judged(engine, tmp_path).num_rows == 1


def test_delete_keeps_rows_the_predicate_is_null_for(tmp_path: Path, engine: Engine) -> None:
    for low in range(0, 30, 10):
        values = [None if value % 5 == 0 else value for value in range(low, low + 10)]
        write_deltalake(
            tmp_path, pa.table({"v": pa.array(values, pa.int64()), "k": range(low, low + 10)}), mode="append"
        )
    untouched = {file for file in DeltaTable(tmp_path).file_uris() if pq.read_table(file)["k"][0].as_py() == 0}
    table = DeltaTable(tmp_path, engine=engine)
    metrics = table.delete("v >= 11 AND v < 18")
    assert metrics["num_deleted_rows"] == 6
    assert metrics["num_copied_rows"] == 4
    assert (metrics["num_removed_files"], metrics["num_added_files"]) == (1, 1)
    assert untouched < set(table.file_uris())
    assert sorted(judged(engine, tmp_path)["k"].to_pylist()) == sorted({*range(30)} - {*range(11, 18)} | {15})
    version = table.version()
    assert table.delete("v = 10000")["num_removed_files"] == 0
    assert table.delete("k = 25 AND v = 1")["num_deleted_rows"] == 0
    assert table.version() == version


@pytest.mark.slow
def test_a_delete_of_whole_partitions_reads_no_file(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"p": ["x", "y", None], "v": [1, 2, 3]}), partition_by=["p"])
    for file in parquet_files(tmp_path):
        if "p=x" in str(file):
            file.write_bytes(b"not Parquet")  # reading this file fails
    table = DeltaTable(tmp_path, engine=engine)
    metrics = table.delete("p = 'x'")
    assert (metrics["num_deleted_rows"], metrics["num_added_files"]) == (1, 0)
    assert judged(engine, tmp_path).to_pylist() == [{"p": "y", "v": 2}, {"p": None, "v": 3}]
    assert table.delete()["num_deleted_rows"] == 2
    assert DeltaTable(tmp_path).count() == 0


@pytest.mark.slow
def test_delete_drops_files_that_lose_every_row(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"v": [1, 1]}))
    put(engine, tmp_path, pa.table({"v": [2]}), mode="append")
    metrics = DeltaTable(tmp_path, engine=engine).delete("v = 1")
    assert metrics["num_added_files"] == 0
    assert judged(engine, tmp_path)["v"].to_pylist() == [2]


@pytest.mark.slow
def test_compact_keeps_rows_and_partitions(tmp_path: Path, engine: Engine) -> None:
    for number in range(4):
        rows = pa.table({"p": ["a b", None], "v": [number, number + 10]})
        put(engine, tmp_path, rows, mode="append", partition_by=["p"])
    before = judged(engine, tmp_path)
    table = DeltaTable(tmp_path, engine=engine)
    metrics = table.optimize.compact(partition_filters=[("p", "=", "a b")])
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["partitionsOptimized"]) == (1, 4, 1)
    metrics = table.optimize.compact()
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["totalConsideredFiles"]) == (1, 4, 5)
    assert judged(engine, tmp_path) == before
    assert judged(engine, tmp_path, 3) == before
    version = table.version()
    assert table.optimize.compact()["numFilesRemoved"] == 0
    assert table.version() == version
    last = json.loads((tmp_path / "_delta_log" / f"{version:020}.json").read_text().splitlines()[-1])
    assert last["add"]["dataChange"] is False


def test_z_order_keeps_rows_and_partitions(tmp_path: Path, engine: Engine) -> None:
    for number in range(4):
        keys = range(number, 400, 4)
        rows = pa.table({"p": ["a b", None] * 50, "x": keys, "y": [str(key * 7 % 400) for key in keys]})
        put(engine, tmp_path, rows, mode="append", partition_by=["p"])
    before = judged(engine, tmp_path)
    table = DeltaTable(tmp_path, engine=engine)
    files = len(table.file_uris())
    metrics = table.optimize.z_order(["x", "y"])
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["partitionsOptimized"]) == (2, files, 2)
    assert judged(engine, tmp_path) == before
    assert judged(engine, tmp_path, 3) == before
    last = json.loads((tmp_path / "_delta_log" / f"{table.version():020}.json").read_text().splitlines()[-1])
    assert last["add"]["dataChange"] is False


def test_a_missing_file_is_named(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"v": [1]}))
    put(engine, tmp_path, pa.table({"v": [2]}), mode="append")
    (file, *_) = parquet_files(tmp_path)
    file.unlink()
    with pytest.raises(ObjectNotFoundError, match=file.name):
        DeltaTable(tmp_path, engine=engine).optimize.compact()
    assert DeltaTable(tmp_path).version() == 1


def test_an_unknown_column_is_named(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"v": [1]}))
    with pytest.raises(InvalidArgumentError, match="DELTA_COLUMN_NOT_FOUND"):
        engine.read(DeltaTable(tmp_path).snapshot, ["w"], None)


def test_zones_and_the_years_no_nanosecond_holds(tmp_path: Path, engine: Engine) -> None:
    moments = [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)]
    put(engine, tmp_path, pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))}))
    assert judged(engine, tmp_path)["at"].to_pylist() == moments
    for file in parquet_files(tmp_path):
        assert "INT96" not in str(pq.ParquetFile(file).schema)


def test_timestamps_without_a_zone_need_their_feature(tmp_path: Path, engine: Engine) -> None:
    put(engine, tmp_path, pa.table({"a": [1]}))
    assert DeltaTable(tmp_path).protocol().min_reader_version == 1
    naive = pa.table({"a": [2], "n": pa.array([dt.datetime(2024, 3, 10, 2, 30)], pa.timestamp("us"))})
    put(engine, tmp_path, naive, mode="append", schema_mode="merge")
    protocol = DeltaTable(tmp_path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ["timestampNtz"]
    assert protocol.writer_features == ["appendOnly", "invariants", "timestampNtz"]
    assert judged(engine, tmp_path)["n"].to_pylist() == [None, dt.datetime(2024, 3, 10, 2, 30)]
