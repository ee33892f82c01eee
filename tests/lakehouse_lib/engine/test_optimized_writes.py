"""``delta.autoOptimize.optimizeWrite``: rows of many tasks or batches are written to few files of each partition."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs

from lakehouse_lib import DeltaTable, StoreError, write_deltalake
from lakehouse_lib.engine.parquet import writer
from lakehouse_lib.engine.spark.write import spark_writer
from tests.peers import parquet_files, read_by_all

OPTIMIZED = {"delta.autoOptimize.optimizeWrite": "true"}
AQE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def files_by_value(path: Path) -> dict[Any, int]:
    return dict(Counter(pa.table(DeltaRs(path).get_add_actions(flatten=True))["partition.p q"].to_pylist()))


@pytest.mark.slow
def test_spark_writes_one_file_for_each_partition_value(tmp_path: Path, spark: Any) -> None:
    frame = spark.range(0, 400, 1, 20).selectExpr("id", "IF(id % 4 = 3, NULL, id % 4) AS `p q`")
    before = spark.conf.get(AQE)
    write_deltalake(tmp_path / "plain", frame, partition_by=["p q"])
    write_deltalake(tmp_path / "optimized", frame, partition_by=["p q"], configuration=OPTIMIZED)
    assert set(files_by_value(tmp_path / "plain").values()) == {20}
    assert files_by_value(tmp_path / "optimized") == {0: 1, 1: 1, 2: 1, None: 1}
    assert read_by_all(tmp_path / "optimized") == read_by_all(tmp_path / "plain")
    assert spark.conf.get(AQE) == before


def test_spark_splits_a_partition_that_is_larger_than_the_target(tmp_path: Path, spark: Any) -> None:
    frame = spark.range(0, 400_000, 1, 20).selectExpr("rand(7) AS x", "IF(id % 100 = 0, 'small', 'large') AS `p q`")
    sized = {**OPTIMIZED, "delta.targetFileSize": str(1 << 20)}
    write_deltalake(tmp_path, frame, partition_by=["p q"], configuration=sized)
    counts = files_by_value(tmp_path)
    assert counts["small"] == 1
    assert 2 <= counts["large"] <= 6
    assert read_by_all(tmp_path).num_rows == 400_000


def test_spark_merges_the_tasks_of_an_unpartitioned_table(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, spark.range(0, 400, 1, 20), configuration=OPTIMIZED)
    write_deltalake(tmp_path, spark.range(400, 800, 1, 20), mode="append")
    assert len(parquet_files(tmp_path)) == 2
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == [*range(800)]


def test_workers_write_one_file_for_each_partition_value(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_writer, "can_write", lambda _: False)
    frame = spark.range(0, 400, 1, 20).selectExpr("id", "id % 4 AS `p q`")
    write_deltalake(tmp_path, frame, partition_by=["p q"], configuration=OPTIMIZED)
    assert files_by_value(tmp_path) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == [*range(400)]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_PENDING_BYTES", 10_000)
    monkeypatch.setattr(writer, "_OPEN_FILES", 2)


def batches(count: int) -> Iterator[pa.RecordBatch]:
    """Batches that each have rows of eight partitions."""
    for number in range(count):
        ids = range(number * 40, number * 40 + 40)
        values = [None if i % 8 == 7 else i % 8 for i in ids]
        yield pa.record_batch({"id": ids, "text": [f"text {i}" * 5 for i in ids], "p q": pa.array(values, pa.int64())})


@pytest.mark.usefixtures("little_memory")
def test_many_batches_become_one_file_for_each_partition_value(tmp_path: Path) -> None:
    schema = next(batches(1)).schema
    for name, properties in (("plain", {}), ("optimized", OPTIMIZED)):
        rows = pa.RecordBatchReader.from_batches(schema, batches(100))
        write_deltalake(tmp_path / name, rows, partition_by=["p q"], configuration=properties)
    assert sum(files_by_value(tmp_path / "plain").values()) > 50
    assert files_by_value(tmp_path / "optimized") == dict.fromkeys([*range(7), None], 1)
    assert read_by_all(tmp_path / "optimized") == read_by_all(tmp_path / "plain")
    rows = DeltaTable(tmp_path / "optimized").to_pyarrow_table(filters=[("p q", "=", 3)])
    assert rows["id"].to_pylist() == [*range(3, 4000, 8)]  # in the order of the batches


@pytest.mark.usefixtures("little_memory")
def test_a_write_that_fails_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "scratch").mkdir()
    table = tmp_path / "table"
    write_deltalake(table, next(batches(1)), partition_by=["p q"], configuration=OPTIMIZED)
    before = parquet_files(table)
    schema = next(batches(1)).schema

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(50)
        assert list((tmp_path / "scratch").rglob("*.arrow"))
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        write_deltalake(table, pa.RecordBatchReader.from_batches(schema, failing()), mode="append")
    finish = writer.DataFileWriter.finish

    def fail_late(self: writer.DataFileWriter) -> list[Any]:
        if len(parquet_files(table)) > len(before) + 3:
            raise StoreError("no space")
        return finish(self)

    monkeypatch.setattr(writer.DataFileWriter, "finish", fail_late)
    with pytest.raises(StoreError, match="no space"):
        write_deltalake(table, pa.RecordBatchReader.from_batches(schema, batches(50)), mode="append")
    assert parquet_files(table) == before
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.usefixtures("little_memory")
def test_a_full_scratch_disk_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pa.ipc, "new_file", full)
    rows = pa.RecordBatchReader.from_batches(next(batches(1)).schema, batches(50))
    with pytest.raises(StoreError, match=r"scratch file .* cannot be written: .*No space left.*TMPDIR"):
        write_deltalake(tmp_path, rows, partition_by=["p q"], configuration=OPTIMIZED)
    assert not parquet_files(tmp_path)
