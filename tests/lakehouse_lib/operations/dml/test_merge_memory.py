"""MERGE reads as little as it needs: its rows one row group at a time, and only columns that it does not assign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable, WriterProperties, write_deltalake
from lakehouse_lib.engine.parquet.merge import task as merge_task
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.dml import apply
from tests.peers import parquet_files, read_duckdb

VECTORS = {"delta.enableDeletionVectors": "true"}


def rows(count: int) -> pa.Table:
    numbers = np.arange(count)
    return pa.table({"id": numbers, "name": numbers.astype(str), "amount": numbers * 0.5})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of each row group that is read."""
    columns: list[list[str]] = []
    row_group = TableReader.row_group

    def recorded(reader: TableReader, *arguments: Any, **named: Any) -> pa.Table:
        columns.append(reader.schema.names)
        return row_group(reader, *arguments, **named)

    monkeypatch.setattr(TableReader, "row_group", recorded)
    monkeypatch.setattr(merge_task, "_BATCH", 1)
    return columns


def made(root: Path) -> DeltaTable:
    """A table of one file with three row groups."""
    properties = WriterProperties(max_row_group_size=100)
    write_deltalake(root, rows(300), configuration=VECTORS, writer_properties=properties)
    return DeltaTable(root, engine=ArrowEngine())


def test_rows_of_a_row_group_are_written_before_the_next_is_read(tmp_path: Path, reads: list[list[str]]) -> None:
    data = pa.table({"id": np.arange(0, 300, 50), "amount": np.zeros(6)})
    merger = made(tmp_path).merge(data, "t.id = s.id", "s", "t").when_matched_update({"amount": "s.amount"})
    assert merger.execute()["num_target_rows_updated"] == 6
    assert reads == [["id"], ["id", "name"]] * 3
    left = read_duckdb(tmp_path).sort_by("id")
    expected = np.where(np.arange(300) % 50 == 0, 0, np.arange(300) * 0.5)
    assert left["amount"].to_pylist() == expected.tolist()
    assert left["name"].to_pylist() == rows(300)["name"].to_pylist()


def test_columns_that_the_source_gives_are_not_read(tmp_path: Path, reads: list[list[str]]) -> None:
    data = rows(301).slice(150).set_column(1, "name", pa.array(["new"] * 151))
    merger = made(tmp_path).merge(data, "t.id = s.id", "s", "t").when_matched_update_all().when_not_matched_insert_all()
    merger.execute()
    assert reads == [["id"]] * 2  # the first row group has no key of the source
    left = read_duckdb(tmp_path).sort_by("id")
    assert left["id"].to_pylist() == list(range(301))
    assert left["name"].to_pylist() == [str(number) if number < 150 else "new" for number in range(301)]


def test_row_groups_without_a_key_of_the_source_are_not_read(tmp_path: Path, reads: list[list[str]]) -> None:
    data = pa.table({"id": [150, 160, 1000]})
    table = made(tmp_path)
    merger = table.merge(data, "t.id = s.id and t.id < 155", "s", "t").when_matched_delete()
    assert merger.execute()["num_target_rows_deleted"] == 1
    assert reads == [["id"]]
    merger = table.merge(data, "t.id = s.id", "s", "t").when_not_matched_by_source_delete()
    assert merger.execute()["num_target_rows_deleted"] == 298
    assert len(reads) == 4
    assert read_duckdb(tmp_path)["id"].to_pylist() == [160]


def test_no_file_is_left_if_a_later_row_group_matches_twice(tmp_path: Path, reads: list[list[str]]) -> None:
    table = made(tmp_path)
    before = parquet_files(tmp_path)
    data = pa.table({"id": [1, 150, 290, 290], "amount": [0.0, 1.0, 2.0, 3.0]})
    merger = table.merge(data, "t.id = s.id", "s", "t", writer_properties=WriterProperties(max_row_group_size=1))
    with pytest.raises(InvalidArgumentError, match="290"):
        merger.when_matched_update({"amount": "s.amount"}).execute()
    # The rows 1 and 150 are written before. The last read is for the message.
    assert reads == [["id"], ["id", "name"], ["id"], ["id", "name"], ["id"], ["id"]]
    assert parquet_files(tmp_path) == before


def test_vectors_are_written_for_some_files_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(5):
        part = rows(500).slice(start * 100, 100)
        write_deltalake(tmp_path, part, mode="append", configuration=VECTORS if not start else None)
    sizes: list[int] = []
    mark = apply._mark_portion
    monkeypatch.setattr(apply, "_BITMAP_BYTES", 32 << 20)
    monkeypatch.setattr(apply, "_mark_portion", lambda files, *rest: sizes.append(len(files)) or mark(files, *rest))
    table = DeltaTable(tmp_path, engine=ArrowEngine())
    assert table.delete("id % 100 < 50")["num_deleted_rows"] == 250
    assert table.update({"name": "'x'"}, predicate="id % 100 < 60")["num_updated_rows"] == 50
    assert sizes == [1, 2, 2, 1, 2, 2]
    assert sorted(read_duckdb(tmp_path)["id"].to_pylist()) == [number for number in range(500) if number % 100 >= 50]


@pytest.mark.slow
def test_a_merge_keeps_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 60
    write_deltalake(tmp_path, pa.table({"id": range(count), "p": range(count)}), partition_by=["p"])
    most_open = 0
    opened = TableReader._opened

    def counted(*arguments: Any) -> Any:
        nonlocal most_open
        links = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
        most_open = max(most_open, sum(link.is_relative_to(tmp_path) for link in links))
        return opened(*arguments)

    monkeypatch.setattr(TableReader, "_opened", counted)
    table = DeltaTable(tmp_path, engine=ArrowEngine(1))
    merger = table.merge(pa.table({"id": range(count)}), "t.id + 0 = s.id", "s", "t").when_matched_update(
        {"id": "t.id + 100"}
    )
    assert merger.execute()["num_target_rows_updated"] == count
    assert most_open < 10
