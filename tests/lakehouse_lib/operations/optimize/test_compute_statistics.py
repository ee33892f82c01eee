"""COMPUTE STATS: statistics that the log lacks are added from footers and columns; judged by DuckDB and delta-rs."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import (
    AddAction,
    DeltaTable,
    convert_to_deltalake,
    create_table_with_add_actions,
    write_deltalake,
)
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DataFileMissingError, InvalidArgumentError
from lakehouse_lib.operations.optimize import statistics
from lakehouse_lib.operations.optimize.statistics import compute_statistics
from tests.peers import plain, read_delta_rs
from tests.table_builder import longs

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "text": ["a", None, "c" * 40, "d", None, "f"],
        "day": pa.array([dt.date(2026, 1, 1 + n) for n in range(6)]),
        "real": [0.5, 1.5, float("nan"), 2.5, 3.5, 4.5],
        "flag": [True, None, False, True, True, None],
        "s": [{"x": n, "list": [n]} for n in range(6)],
    }
)


def without_statistics(root: Path, files: int = 2, configuration: dict[str, str | None] | None = None) -> DeltaTable:
    """A table whose files another program has written, without statistics."""
    root.mkdir()
    step = len(ROWS) // files
    for number in range(files):
        pq.write_table(ROWS.slice(number * step, step), root / f"{number}.parquet")
    actions = [AddAction(path.name, path.stat().st_size, {}, 1, True, "") for path in sorted(root.glob("*.parquet"))]
    create_table_with_add_actions(
        root, DeltaTable.create(root.with_name("like"), ROWS.schema).schema(), actions, configuration=configuration
    )
    return DeltaTable(root)


def stats_of(table: DeltaTable) -> list[Any]:
    files = table.snapshot.files.sort_by("path")
    return [None if text is None else json.loads(text) for text in files["stats"].to_pylist()]


def test_the_footers_give_what_a_write_would_have_given(tmp_path: Path, engine: Engine) -> None:
    table = without_statistics(tmp_path / "t")
    table = DeltaTable(tmp_path / "t", engine=engine)
    assert len(table.files("id = 1")) == 2
    before = table.to_pyarrow_table().drop_columns("real")
    metrics = table.optimize.statistics()
    assert {name: metrics[name] for name in ("numUpdatedFiles", "numFootersRead", "totalConsideredFiles")} == {
        "numUpdatedFiles": 2,
        "numFootersRead": 2,
        "totalConsideredFiles": 2,
    }
    assert stats_of(table)[0] == {
        "numRecords": 3,
        "minValues": {"id": 0, "text": "a", "day": "2026-01-01", "real": 0.5, "s": {"x": 0}},
        "maxValues": {"id": 2, "text": "c" * 32 + "\x7f", "day": "2026-01-03", "s": {"x": 2}},
        "nullCount": {"id": 0, "text": 1, "day": 0, "real": 0, "flag": 1, "s": {"x": 0}},
    }
    assert len(table.files("id = 1")) == len(table.files("s.x > 4")) == 1
    assert table.to_pyarrow_table().drop_columns("real") == before  # NaN does not equal itself
    assert plain(read_delta_rs(tmp_path / "t").drop_columns("real")) == plain(before)
    info = table.history(1)[0]
    assert (info["operation"], info["isBlindAppend"]) == ("COMPUTE STATS", False)
    assert table.optimize.statistics()["numFootersRead"] == 0
    assert table.version() == metrics["version"] == 1
    assert deltalake.DeltaTable(tmp_path / "t").count() == 6


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_footers_without_statistics(tmp_path: Path, engine: Engine, mapping: str) -> None:
    """The columns are read, and the result is what the writer of this library puts into the log."""
    times = [dt.datetime(2026, 1, 1, 0, 0, 0, 1), dt.datetime(1677, 1, 1), None]
    rows = pa.table(
        {
            "id": pa.array([3, None, 1], pa.int32()),
            "text": ["a", "é" * 70, None],
            "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "wall": pa.array(times, pa.timestamp("us")),
            "amount": pa.array([Decimal("12345678901234567890.12"), Decimal("-1.50"), None], pa.decimal128(22, 2)),
            "real": [0.5, None, -0.0],
            "nan": pa.array([float("nan"), 1.0, None], pa.float32()),
            "flag": [True, None, False],
            "raw": pa.array([b"a", None, b"b"]),
            "s": pa.array([{"x": 7, "list": [1]}, None, {"x": None, "list": None}]),
            "void": pa.array([None, None, None], pa.int64()),
        }
    )
    write_deltalake(tmp_path / "t", rows, configuration={"delta.columnMapping.mode": mapping})
    expected = stats_of(DeltaTable(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.parquet")
    pq.write_table(pq.read_table(path), path, write_statistics=False, row_group_size=1)
    commits = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in commits.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"] |= {"stats": '{"numRecords":3}', "size": path.stat().st_size}
    commits.write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "t" / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    table = DeltaTable(tmp_path / "t", engine=engine)
    metrics = table.optimize.statistics()
    assert (metrics["numUpdatedFiles"], metrics["numDataFilesRead"]) == (1, 1)
    assert stats_of(table) == expected
    assert table.optimize.statistics()["numFootersRead"] == 0


def test_int96_timestamps_of_a_converted_folder(tmp_path: Path) -> None:
    """Their footers have null counts without bounds, so a conversion cannot give any."""
    for number in range(2):
        at = pa.array([dt.datetime(2026, 1 + number, 1), None], pa.timestamp("us"))
        rows = pa.table({"at": at})
        pq.write_table(rows, tmp_path / f"{number}.parquet", use_deprecated_int96_timestamps=True)
    convert_to_deltalake(tmp_path)
    table = DeltaTable(tmp_path)
    assert len(table.files("at >= '2026-02-01'")) == 2
    metrics = table.optimize.statistics()
    assert (metrics["numUpdatedFiles"], metrics["numDataFilesRead"]) == (2, 2)
    assert len(table.files("at >= '2026-02-01'")) == 1
    assert table.optimize.statistics()["numFootersRead"] == 0
    assert plain(read_delta_rs(tmp_path)) == plain(table.to_pyarrow_table())


def test_a_column_that_cannot_be_read_has_no_statistics(tmp_path: Path) -> None:
    without_statistics(tmp_path / "t", 1)
    rows = ROWS.set_column(0, "id", pa.array(["x"] * 6)).set_column(3, "real", pa.array([1.0] * 6))
    pq.write_table(rows, tmp_path / "t" / "0.parquet", write_statistics=False)
    table = DeltaTable(tmp_path / "t")
    table.optimize.statistics()
    stats = stats_of(table)[0]
    assert "id" not in stats["nullCount"]
    assert stats["maxValues"]["real"] == 1.0


def test_columns_that_are_indexed_later(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.dataSkippingStatsColumns": "real"})
    table = DeltaTable(tmp_path)
    assert table.optimize.statistics()["numFootersRead"] == 0
    table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "real,id,flag"})
    assert table.optimize.statistics()["numUpdatedFiles"] == 1
    stats = stats_of(table)[0]
    assert stats["nullCount"] == {"real": 0, "id": 0, "flag": 2}
    assert (stats["minValues"], stats["maxValues"]) == ({"id": 0, "real": 0.5}, {"id": 5})


def test_whole_numbers_of_a_column_that_became_a_decimal_stay_exact(tmp_path: Path) -> None:
    number = 2**53 + 1  # no double
    properties = {"delta.enableTypeWidening": "true", "delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(tmp_path, longs(id=[number]), configuration=properties)
    table = DeltaTable(tmp_path)
    table.alter.change_column_type("id", "decimal(20,0)")
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "1"})
    table.optimize.statistics()
    assert stats_of(table)[0]["minValues"] == stats_of(table)[0]["maxValues"] == {"id": number}


def test_statistics_in_the_log_win(tmp_path: Path) -> None:
    """The max of a floating-point column is known when rows are written, and not from a footer."""
    rows = pa.table({"real": [1.5, 2.5], "id": [1, 2]})
    write_deltalake(tmp_path, rows, configuration={"delta.dataSkippingNumIndexedCols": "1"})
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "2"})
    table.optimize.statistics()
    assert stats_of(table)[0]["maxValues"] == {"real": 2.5, "id": 2}


def test_a_column_that_files_do_not_have_is_null(tmp_path: Path) -> None:
    write_deltalake(tmp_path, longs(id=[1, 2]))
    write_deltalake(tmp_path, longs(id=[3], new=[7]), mode="append", schema_mode="merge")
    table = DeltaTable(tmp_path)
    assert len(table.files("new = 7")) == 2
    assert table.optimize.statistics()["numUpdatedFiles"] == 1
    assert len(table.files("new = 7")) == 1
    assert len(table.files("new IS NULL")) == 1
    assert plain(read_delta_rs(tmp_path)) == plain(table.to_pyarrow_table())


@pytest.mark.parametrize("mode", ["name", "id"])
def test_names_of_mapped_columns(tmp_path: Path, mode: str) -> None:
    write_deltalake(
        tmp_path,
        longs(id=[1, 2], b=[3, 4]),
        configuration={"delta.columnMapping.mode": mode, "delta.dataSkippingNumIndexedCols": "0"},
    )
    table = DeltaTable(tmp_path)
    table.alter.rename_column("id", "number")
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "2"})
    assert table.optimize.statistics()["numUpdatedFiles"] == 1
    assert [len(table.files(f"number = {value}")) for value in (1, 2, 3)] == [1, 1, 0]


def test_a_deletion_vector_makes_bounds_wide(tmp_path: Path) -> None:
    without_statistics(tmp_path / "t", 1, {"delta.enableDeletionVectors": "true"})
    table = DeltaTable(tmp_path / "t")
    table.delete("id = 5")
    before = table.to_pyarrow_table().drop_columns("real")
    assert table.optimize.statistics()["numUpdatedFiles"] == 1
    stats = stats_of(table)[0]
    assert (stats["numRecords"], stats["tightBounds"], stats["maxValues"]["id"]) == (6, False, 5)
    assert table.to_pyarrow_table().drop_columns("real") == before  # NaN does not equal itself
    assert table.count() == 5
    assert table.optimize.statistics()["numFootersRead"] == 0


def test_a_widened_date_gets_no_wrong_bounds(tmp_path: Path) -> None:
    """A day number in the footer is not a number of microseconds."""
    write_deltalake(
        tmp_path,
        pa.table({"at": pa.array([dt.date(2026, 1, 1)])}),
        configuration={"delta.enableTypeWidening": "true", "delta.dataSkippingNumIndexedCols": "0"},
    )
    table = DeltaTable(tmp_path)
    table.alter.change_column_type("at", "timestamp_ntz")
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "1"})
    table.optimize.statistics()
    midnight = {"at": "2026-01-01T00:00:00.000"}
    assert stats_of(table)[0] == {
        "numRecords": 1,
        "minValues": midnight,
        "maxValues": midnight,
        "nullCount": {"at": 0},
    }
    assert len(table.files("at >= '2026-01-01'")) == 1


def test_only_some_partitions(tmp_path: Path) -> None:
    for part in (1, 2):
        write_deltalake(
            tmp_path,
            longs(part=[part], id=[part]),
            mode="append",
            partition_by=["part"],
            configuration={"delta.dataSkippingNumIndexedCols": "0"} if part == 1 else None,
        )
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "32"})
    metrics = table.optimize.statistics("part = 2")
    assert (metrics["numUpdatedFiles"], metrics["totalConsideredFiles"]) == (1, 1)
    assert len(table.files("id = 2 AND part = 1")) == 1
    with pytest.raises(InvalidArgumentError, match="partition columns"):
        table.optimize.statistics("id = 2")


def test_a_missing_file_commits_nothing(tmp_path: Path) -> None:
    table = without_statistics(tmp_path / "t")
    (tmp_path / "t" / "1.parquet").unlink()
    with pytest.raises(DataFileMissingError, match=r"1\.parquet"):
        table.optimize.statistics()
    assert table.version() == 0


@pytest.mark.parametrize("rival", ["append", "delete", "compact", "mark", "other", "all"])
def test_beside_a_concurrent_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rival: str) -> None:
    """A file that is removed meanwhile stays removed; the other file gets its statistics."""
    configuration: dict[str, str | None] = {"delta.enableDeletionVectors": "true"} if rival == "mark" else {}
    table = without_statistics(tmp_path / "t", 2, configuration)

    def commit_first() -> None:
        other = DeltaTable(tmp_path / "t")
        if rival == "append":
            write_deltalake(other, ROWS, mode="append")
        elif rival == "compact":
            other.optimize.compact()
        elif rival == "other":
            other.optimize.statistics()
        else:
            other.delete(None if rival == "all" else "id < 3" if rival == "delete" else "id = 0")

    reads: list[int] = []
    read = statistics.read_statistics

    def late(task: statistics.StatisticsTask) -> pa.Table:
        reads.append(len(task.files))
        if len(reads) == 1:
            monkeypatch.setattr(statistics, "read_statistics", read)
            commit_first()
        return read(task)

    monkeypatch.setattr(statistics, "read_statistics", late)
    result = compute_statistics(table.snapshot, ArrowEngine(1))
    expected = {"append": 2, "delete": 1, "compact": 0, "mark": 1, "other": 2, "all": 0}[rival]
    assert result.metrics["numUpdatedFiles"] == expected
    assert (result.version is None) is (expected == 0)
    assert sum(reads) == 2
    after = DeltaTable(tmp_path / "t")
    rows = {"append": 12, "delete": 3, "compact": 6, "mark": 5, "other": 6, "all": 0}[rival]
    assert after.count() == rows == after.to_pyarrow_table().num_rows
    if rival != "mark":
        assert deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table().num_rows == rows


def test_row_ids_stay(tmp_path: Path) -> None:
    write_deltalake(
        tmp_path,
        longs(id=[1, 2], b=[1, 2]),
        configuration={"delta.enableRowTracking": "true", "delta.dataSkippingNumIndexedCols": "1"},
    )
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "2"})
    before = table.snapshot.file_columns(["baseRowId", "defaultRowCommitVersion"]).to_pylist()
    assert table.optimize.statistics()["numUpdatedFiles"] == 1
    assert table.snapshot.file_columns(["baseRowId", "defaultRowCommitVersion"]).to_pylist() == before


def test_the_change_feed_has_no_change(tmp_path: Path) -> None:
    without_statistics(tmp_path / "t", 2, {"delta.enableChangeDataFeed": "true"})
    table = DeltaTable(tmp_path / "t")
    table.optimize.statistics()
    assert pa.table(table.load_cdf(starting_version=1)).num_rows == 0
