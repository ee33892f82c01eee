"""Footers of files with NaN from every writer of this library: Spark's Parquet reader skips no matching row group."""

from __future__ import annotations

import json

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet import writer
from lakehouse_lib.engine.parquet.writer import write_stream
from lakehouse_lib.engine.spark.write.worker_writer import write_rows
from lakehouse_lib.schema import Schema, TableLayout
from lakehouse_lib.store import open_store

NAN = float("nan")
CONDITIONS = ["d > 5", "d = CAST('NaN' AS DOUBLE)", "d >= 1.5", "s.d > 5", "f > 5", "f != 1", "NOT d <= 5", "i > 1"]


def rows_of(ids: list[int], d: list[float | None]) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "d": pa.array(d, pa.float64()),
            "s": pa.array([{"d": value, "i": 1} for value in d], pa.struct({"d": pa.float64(), "i": pa.int32()})),
            "f": pa.array([1.0] * count, pa.float32()),
            "l": pa.array([[value] for value in d], pa.list_(pa.float32())),
            "m": pa.array([[("k", value)] for value in d], pa.map_(pa.string(), pa.float64())),
            "i": pa.array(range(count), pa.int32()),
            "t": pa.array(range(count), pa.timestamp("us", tz="UTC")),
            "c": pa.array(range(count), pa.int64()).cast(pa.decimal128(38, 3)),
        }
    )


def statistics_in(path: str) -> dict[str, tuple[bool, bool]]:
    """For each Parquet column: whether any row group has min and max, and whether any has a page index."""
    footer = pq.read_metadata(path)
    statistics: dict[str, tuple[bool, bool]] = {}
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            column = footer.row_group(group).column(number)
            bounds, index = statistics.get(column.path_in_schema, (False, False))
            has_bounds = column.statistics is not None and column.statistics.has_min_max
            statistics[column.path_in_schema] = (bounds or has_bounds, index or column.has_column_index)
    return statistics


def assert_safe_for_spark(table: DeltaTable, spark) -> None:
    for uri in table.file_uris():
        statistics = statistics_in(uri)
        content = pq.read_table(uri)
        nan = bool(np.isnan(content["d"].drop_null().to_numpy()).any())
        with_nan = ("d", "s.d", "l.list.element", "m.key_value.value")
        assert {name: statistics[name] for name in with_nan} == dict.fromkeys(with_nan, (not nan, not nan))
        assert statistics["i"] == statistics["f"] == statistics["s.i"] == (True, True)
    frames = spark.read.parquet(*(f"file:{file_uri}" for file_uri in table.file_uris()))
    matches = {sql: sorted(row["id"] for row in frames.where(sql).collect()) for sql in CONDITIONS}
    assert matches == {sql: sorted(table.to_pyarrow_table(filters=sql)["id"].to_pylist()) for sql in CONDITIONS}


@pytest.mark.slow
def test_every_verb(tmp_path, engine, spark):
    """No finite value is above 5."""
    write_deltalake(
        tmp_path / "t", rows_of([1, 2, 3], [1.0, NAN, 2.0]), engine=engine if engine.name == "arrow" else None
    )
    write_deltalake(tmp_path / "t", rows_of([4, 5, 6], [1.0, None, 2.0]), mode="append")
    table = DeltaTable(tmp_path / "t", engine=engine)
    assert_safe_for_spark(table, spark)
    first, second = (json.loads(stats) for stats in table._snapshot.files["stats"].to_pylist())
    if "d" in first["maxValues"]:
        first, second = second, first
    assert (first["minValues"]["d"], first["minValues"]["s"]["d"], first["nullCount"]["d"]) == (1.0, 1.0, 0)
    assert (second["minValues"]["d"], second["maxValues"]["d"], second["nullCount"]["d"]) == (1.0, 2.0, 1)
    table.delete("id = 1")
    assert_safe_for_spark(table, spark)
    table.optimize.compact()
    assert len(table.file_uris()) == 1
    assert_safe_for_spark(table, spark)
    write_deltalake(tmp_path / "t", rows_of([7, 8], [NAN, 0.5]), mode="append")
    table.update_incremental()
    table.optimize.z_order(["d", "id"])
    assert_safe_for_spark(table, spark)


def test_spark_workers_that_write_by_themselves(tmp_path, spark):
    rows = rows_of([1, 2], [1.0, NAN])
    write_deltalake(tmp_path / "t", rows.slice(0, 0))
    target = WriteTarget(open_store(tmp_path / "t"), TableLayout(Schema.from_arrow(rows.schema)))
    list(write_rows(target, iter(rows.to_batches())))
    (path,) = (tmp_path / "t").glob("*.parquet")
    assert statistics_in(str(path))["d"] == (False, False)


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(writer, "_ROW_GROUP_ROWS", 4)


@pytest.mark.usefixtures("small_groups")
def test_a_late_nan_changes_neither_the_files_nor_the_rows(tmp_path, spark):
    values = [float(number % 5) for number in range(40)]
    rows = rows_of(list(range(40)), [*values[:30], NAN, *values[31:]])
    write_deltalake(tmp_path / "t", rows)
    table = DeltaTable(tmp_path / "t")
    (path,) = (tmp_path / "t").glob("*.parquet")
    assert table.file_uris() == [str(path)]
    assert pq.read_metadata(path).num_row_groups == 10
    assert repr(table.to_pyarrow_table().to_pylist()) == repr(rows.to_pylist())
    assert_safe_for_spark(table, spark)


@pytest.mark.usefixtures("small_groups")
def test_each_column_may_have_its_first_nan_in_another_row_group(tmp_path):
    late = np.zeros((12, 3))
    late[4, 0] = late[8, 1] = NAN
    rows = pa.table({name: pa.array(late[:, at], from_pandas=False) for at, name in enumerate("abc")})
    write_deltalake(tmp_path / "t", rows)
    (path,) = (tmp_path / "t").glob("*.parquet")
    assert {name: has for name, (has, _) in statistics_in(str(path)).items()} == {"a": False, "b": False, "c": True}
    (stats,) = DeltaTable(tmp_path / "t")._snapshot.files["stats"].to_pylist()
    said = json.loads(stats)
    assert said["maxValues"] == {"c": 0.0}
    assert said["minValues"] == {"a": -0.0, "b": -0.0, "c": -0.0}
    assert said["nullCount"] == {"a": 0, "b": 0, "c": 0}


@pytest.mark.usefixtures("small_groups")
def test_a_failure_after_a_late_nan_leaves_no_file(tmp_path):
    rows = rows_of(list(range(12)), [0.0] * 9 + [NAN] * 3)
    target = WriteTarget(open_store(tmp_path / "t"), TableLayout(Schema.from_arrow(rows.schema)))

    def batches():
        yield rows
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write_stream(batches(), target)
    assert list((tmp_path / "t").rglob("*.parquet")) == []


def test_a_frame_of_files_whose_footers_leave_nan_out(tmp_path, spark):
    """delta-rs writes such footers, and older versions of this library did."""
    rows = rows_of([1, 2, 3, 4], [1.0, NAN, -0.0, None])
    deltalake.write_deltalake(tmp_path / "t", rows)
    table = DeltaTable(tmp_path / "t")
    (path,) = table.file_uris()
    assert statistics_in(path)["d"] == statistics_in(path)["s.d"] == (True, True)
    frame = table.to_spark(spark)
    matches = {sql: sorted(row["id"] for row in frame.where(sql).collect()) for sql in CONDITIONS}
    assert matches == {sql: sorted(table.to_pyarrow_table(filters=sql)["id"].to_pylist()) for sql in CONDITIONS}
    assert matches["d > 5"] == matches["s.d > 5"] == [2]
    as_written = {row["id"]: repr((row["d"], row["s"], row["f"])) for row in frame.collect()}
    assert as_written[1] == repr((1.0, Row(d=1.0, i=1), 1.0))
    assert as_written[3] == repr((-0.0, Row(d=-0.0, i=1), 1.0))
    assert as_written[4] == repr((None, Row(d=None, i=1), 1.0))
