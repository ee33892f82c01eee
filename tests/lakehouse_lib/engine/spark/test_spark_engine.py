"""Behaviour of the Spark engine only: where bytes move, the session's settings, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, SchemaMismatchError, StoreError, write_deltalake
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.read import manifest
from lakehouse_lib.expressions import parse
from lakehouse_lib.store import LocalStore
from tests.peers import parquet_files, plain, read_delta_rs
from tests.slow_cases import some_slow

SETTINGS = (
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.session.timeZone",
    "spark.sql.parquet.writeLegacyFormat",
)


def test_settings_are_restored_after_a_write_and_a_failed_write(tmp_path: Path, spark: Any) -> None:
    before = {name: spark.conf.get(name) for name in SETTINGS}
    write_deltalake(tmp_path / "t", spark.range(3))
    with pytest.raises(StoreError, match="boo") as caught:
        write_deltalake(tmp_path / "t", spark.range(3).selectExpr("id + raise_error('boo') AS id"), mode="append")
    assert "Py4J" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {name: spark.conf.get(name) for name in SETTINGS} == before
    assert DeltaTable(tmp_path / "t").version() == 0
    assert parquet_files(tmp_path / "t") == {Path(file) for file in DeltaTable(tmp_path / "t").file_uris()}


def test_a_write_leaves_data_files_and_nothing_else(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, spark.range(10).selectExpr("id", "id % 2 AS p"), partition_by=["p"])
    stray = [path for path in tmp_path.rglob("*") if path.is_file() and "_delta_log" not in path.parts]
    assert {path.resolve() for path in stray} == {Path(file) for file in DeltaTable(tmp_path).file_uris()}


def test_a_copy_of_a_slower_attempt_is_not_committed(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = LocalStore.walk

    def walk_late(store: LocalStore, prefix: str = "") -> Any:
        for file in sorted((tmp_path / prefix).rglob("*.parquet")) if prefix.startswith("spark_write=") else []:
            late = tmp_path / prefix / "_temporary/0/_temporary/attempt_1" / file.name
            late.parent.mkdir(parents=True, exist_ok=True)
            late.write_bytes(file.read_bytes())
        return walk(store, prefix)

    monkeypatch.setattr(LocalStore, "walk", walk_late)
    write_deltalake(tmp_path, spark.range(5))
    assert list(tmp_path.rglob("_temporary"))
    assert DeltaTable(tmp_path).count() == 5
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_inferred_nullability_does_not_constrain_the_table(tmp_path: Path, spark: Any) -> None:
    # As in delta-spark: columns of range, of a literal, or of an array of these have no nulls.
    rows = spark.range(2).selectExpr("id", "1 AS one", "array(named_struct('x', 1)) AS a")
    write_deltalake(tmp_path, rows)
    schema = DeltaTable(tmp_path).to_pyarrow_table().schema
    inner = pa.struct([pa.field("x", pa.int32())])
    assert schema == pa.schema([("id", pa.int64()), ("one", pa.int32()), ("a", pa.list_(pa.field("element", inner)))])
    write_deltalake(tmp_path, pa.table({"id": [None], "one": [None], "a": [[None]]}, schema), mode="append")
    assert DeltaTable(tmp_path).count() == 3


def test_a_column_that_does_not_fit_is_refused_before_spark_runs(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1]}))
    with pytest.raises(SchemaMismatchError, match="a is string, expected long"):
        write_deltalake(tmp_path, spark.createDataFrame([("x",)], "a string"), mode="append")


def test_nested_fields_are_matched_by_name(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, pa.table({"s": [{"a": 1, "b": 2}]}))
    write_deltalake(tmp_path, spark.sql("SELECT named_struct('b', 20L, 'a', 10L) AS s"), mode="append")
    assert read_delta_rs(tmp_path)["s"].to_pylist() == [{"a": 1, "b": 2}, {"a": 10, "b": 20}]


def test_filters_reach_the_scan_and_partitions_are_pruned(tmp_path: Path, spark: Any, capsys: Any) -> None:
    rows = spark.range(100).selectExpr("id", "id % 4 AS p")
    write_deltalake(tmp_path, rows, partition_by=["p"])
    write_deltalake(tmp_path, rows, mode="append")
    frame = DeltaTable(tmp_path).to_spark(spark).where("p = 1 AND id > 90")
    frame.explain()
    plan = capsys.readouterr().out
    assert "PartitionFilters: [isnotnull(p" in plan
    assert "GreaterThan(id,90)" in plan
    assert plan.count("FileScan") == 1  # one branch for any number of writes
    assert sorted(row.id for row in frame.collect()) == [93, 93, 97, 97]


def test_partition_values_come_from_the_log_and_not_from_folders(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, pa.table({"p": ["x", "y"], "v": [1, 2]}), partition_by=["p"])
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"p":"x"', '"p":"z é"'))
    expected = [("y", 2), ("z é", 1)]
    assert sorted((row.p, row.v) for row in DeltaTable(tmp_path).to_spark(spark).collect()) == expected


@pytest.mark.parametrize("name", some_slow(["q'\"#?&+;,~!$()@", "é%20ü", "a b", "k=v", "{x}[y]"], 2))
def test_odd_names_of_the_tables_own_folder(tmp_path: Path, spark: Any, name: str) -> None:
    uri = tmp_path / name / "t"
    rows = pa.table({"p": ["x y%", None], "d": [1.5, 2.5], "v": [1, 2]})
    write_deltalake(uri, spark.createDataFrame(rows), partition_by=["p"])
    write_deltalake(uri, rows, mode="append")
    assert plain(DeltaTable(uri).to_spark(spark).toArrow()) == plain(pa.concat_tables([rows, rows]))
    write_deltalake(uri / "by double", spark.createDataFrame(rows), partition_by=["d"])
    by_double = DeltaTable(uri / "by double")
    assert plain(by_double.to_spark(spark).toArrow()) == plain(rows)


def test_a_thousand_files_plan_quickly_and_reuse_their_manifest(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, pa.table({"p": range(500), "v": range(500)}), partition_by=["p"])
    table = DeltaTable(tmp_path)
    assert table.to_spark(spark).count() == 500
    manifests = len(list(manifest._scratch().iterdir()))
    assert table.to_spark(spark).where("p = 3").collect()[0].v == 3
    assert len(list(manifest._scratch().iterdir())) == manifests


def test_executors_write_the_files(tmp_path: Path, spark: Any, spark_events: Path) -> None:
    spark.sparkContext.setJobGroup("bytes", "the bytes of this test")
    write_deltalake(tmp_path, spark.range(200_000))
    assert DeltaTable(tmp_path).to_spark(spark).agg({"id": "sum"}).collect()[0][0] == 199_999 * 100_000
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    read = written = 0
    for line in next(iter(spark_events.glob("*"))).read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            metrics = event.get("Task Metrics") or {}
            read += metrics.get("Input Metrics", {}).get("Bytes Read", 0)
            written += metrics.get("Output Metrics", {}).get("Bytes Written", 0)
    size = sum(file.stat().st_size for file in parquet_files(tmp_path))
    assert size > 500_000
    assert written >= size
    assert read > 0


def test_a_predicate_is_what_sparks_scan_filters_by(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, pa.table({"v": [1, None, 3], "s": ["a", "b", None]}))
    table = DeltaTable(tmp_path)
    frame = SparkEngine(spark).read(table.snapshot, ["s"], parse("NOT (v = 1)", table.schema()))
    assert [row.s for row in frame.collect()] == [None]


def test_an_error_of_an_unknown_java_class_is_one_line(tmp_path: Path, spark: Any) -> None:
    file = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"x": range(1000)}), file)
    data = file.read_bytes()
    file.write_bytes(data[:10] + bytes(400) + data[410:])
    with pytest.raises(StoreError, match=r"damaged\.parquet") as failed:
        write_deltalake(tmp_path / "table", spark.read.schema("x long").parquet(str(file)))
    assert "\n" not in str(failed.value)
    assert not DeltaTable.is_deltatable(tmp_path / "table")
