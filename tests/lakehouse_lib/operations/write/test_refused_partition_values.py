"""Rows with partition values that the log cannot store are refused before the commit, and no file is left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import ConstraintViolatedError, DeltaTable, InvalidArgumentError, write_deltalake
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.spark.write.spark_writer import FooterTask, read_footers
from lakehouse_lib.schema import Field, PrimitiveType, Schema, TableLayout
from lakehouse_lib.store import LocalStore
from tests.peers import parquet_files

FAR = pa.array([2_932_897], pa.int32()).cast(pa.date32())  # 10000-01-01
NEAR = pa.array([2_932_896], pa.int32()).cast(pa.date32())


def test_a_year_beyond_9999_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"p": NEAR, "v": [1]}), partition_by=["p"])
    batches = pa.table({"p": pa.chunked_array([NEAR, FAR]), "v": pa.chunked_array([[2], [3]], pa.int64())})
    for rows in (batches, batches.to_reader()):
        with pytest.raises(InvalidArgumentError, match=rf"column p: .*10000-01-01.*{tmp_path}.*0 to 9999"):
            write_deltalake(tmp_path, rows, mode="append")
    assert DeltaTable(tmp_path).version() == 0
    assert len(parquet_files(tmp_path)) == 1
    assert DeltaTable(tmp_path).to_pyarrow_table()["v"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("kind", "folder"),
    [
        ("date", "+10000-01-01"),
        ("date", "-0001-12-31"),
        ("timestamp", "+10000-01-01 00%3A00%3A00"),
        ("timestamp_ntz", "-0001-12-31 23%3A59%3A59.999999"),
    ],
)
def test_a_year_beyond_9999_in_the_spelling_of_spark(tmp_path: Path, kind: str, folder: str) -> None:
    file = tmp_path / f"p={folder}" / "part-0.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table({"v": [1]}), file)
    store = LocalStore(tmp_path)
    target = WriteTarget(
        store, TableLayout(Schema([Field("p", PrimitiveType(kind)), Field("v", PrimitiveType("long"))]), ("p",))
    )
    with pytest.raises(InvalidArgumentError, match=rf"column p: .*(10000|0001).*{tmp_path}.*0 to 9999"):
        read_footers(FooterTask(target, tuple(store.walk(file.parent.name))))


def test_an_empty_text_in_a_not_null_partition_column(tmp_path: Path) -> None:
    required = pa.schema([pa.field("p", pa.string(), nullable=False), pa.field("v", pa.int64())])
    write_deltalake(tmp_path, pa.table({"p": ["x"], "v": [1]}, schema=required), partition_by=["p"])
    rows = pa.table({"p": ["x", "", "y", ""], "v": [2, 3, 4, 5]}, schema=required)
    with pytest.raises(ConstraintViolatedError, match=rf"NOT NULL p .*empty text.*: 2 of 4 rows, .*{tmp_path}"):
        write_deltalake(tmp_path, rows, mode="append")
    assert DeltaTable(tmp_path).version() == 0
    assert len(parquet_files(tmp_path)) == 1


def test_a_repeated_footer_task_reads_the_same_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    store = LocalStore(tmp_path)
    task = FooterTask(WriteTarget(store, TableLayout(Schema([Field("v", "long")]))), tuple(store.walk("")))
    assert read_footers(task)["path"].to_pylist() == read_footers(task)["path"].to_pylist() == ["empty.parquet"]
