"""CONVERT: a folder of Parquet files becomes the table that delta-rs' conversion makes of it, in place."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, convert_to_deltalake, write_deltalake
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    DeltaError,
    InvalidArgumentError,
    InvalidSchemaError,
    SchemaMismatchError,
    StoreError,
    UnsupportedFeatureError,
)
from lakehouse_lib.schema import Field, Schema
from tests.peers import parquet_files, plain, read_by_all, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

PARTS = pa.schema([("day", pa.date32()), ("part", pa.string())])


def data(chance: random.Random, count: int, parts: list[str]) -> pa.Table:
    numbers = [chance.randrange(-1000, 1000) for _ in range(count)]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "small": pa.array([None if n % 5 == 0 else n % 100 for n in numbers], pa.int8()),
            "real": pa.array([float("nan") if n % 50 == 0 else n / 7 for n in numbers], pa.float64()),
            "text": [None if n % 9 == 0 else chance.choice("aä𐐀") * (n % 70) for n in numbers],
            "price": pa.array([decimal.Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(12, 2)),
            "at": pa.array(
                [dt.datetime(2026, 1, 1) + dt.timedelta(microseconds=n) for n in numbers], pa.timestamp("us", "UTC")
            ),
            "day": [dt.date(2026, 1, 1) + dt.timedelta(days=n % 3) for n in numbers],
            "part": [None if n % 4 == 0 else chance.choice(parts) for n in numbers],
            "s": [{"x": n, "list": [n, None]} for n in numbers],
        }
    )


CONDITIONS = ("id > 900", "real > 100", "text > 'b'", "day = DATE '2026-01-02'", "part <> 'a b'", "s.x < -900")


@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("seed", some_slow(range(4), 1))
def test_beside_delta_rs(tmp_path: Path, seed: int, partitioned: bool) -> None:
    chance = random.Random(seed)
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    rows = data(chance, 300, ["x", "a b", "c/d=e", "50%", "ü"] if seed % 2 else ["x", "y"])
    for number in range(3):
        part = rows.slice(number * 100, 100)
        ds.write_dataset(
            part,
            own,
            format="parquet",
            partitioning=ds.partitioning(PARTS, flavor="hive") if partitioned else None,
            basename_template=f"{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )
    shutil.copytree(own, peer)
    before = {path: path.read_bytes() for path in parquet_files(own)}
    strategy = "hive" if partitioned else None
    convert_to_deltalake(own, partition_by=PARTS if partitioned else None, partition_strategy=strategy)
    fields = deltalake.Schema.from_arrow(PARTS) if partitioned else None
    deltalake.convert_to_deltalake(peer, partition_by=fields, partition_strategy=strategy)
    assert {path: path.read_bytes() for path in parquet_files(own)} == before
    table = DeltaTable(own)
    assert table.to_pyarrow_table().num_rows == 300
    read = plain(table.to_pyarrow_table())
    # delta-rs does not find its converted files in folders with such names.
    peers = [] if partitioned and seed % 2 else [read_delta_rs(peer)]
    for other in (read_duckdb(own), read_delta_rs(own), *peers):
        assert repr(other.select(read.column_names).to_pylist()) == repr(read.to_pylist())  # NaN is not equal to NaN
    assert sorted(table.metadata().partition_columns) == sorted(deltalake.DeltaTable(peer).metadata().partition_columns)
    for condition in CONDITIONS:  # statistics skip no file that has a row
        expected = write_and_filter(tmp_path / "other", rows, condition)
        assert table.to_pyarrow_table(filters=condition).num_rows == expected, condition
    stats = [json.loads(text)["numRecords"] for text in table.snapshot.files["stats"].to_pylist()]
    assert sum(stats) == 300
    write_deltalake(own, rows.slice(0, 10), mode="append")
    assert read_duckdb(own).num_rows == 310
    commit = table.history()[-1]
    assert (commit["operation"], commit["operationMetrics"]) == ("CONVERT", {"numConvertedFiles": str(len(before))})


def write_and_filter(root: Path, rows: pa.Table, condition: str) -> int:
    """The rows for which a condition is true, in a table that was written and not converted."""
    if not root.exists():
        write_deltalake(root, rows)
    return DeltaTable(root).to_pyarrow_table(filters=condition).num_rows


def test_columns_of_all_files_are_merged(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "s": [{"x": 1}]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"s": [{"y": "q", "x": 2}], "b": [2.5]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"a": pa.nulls(1), "b": [1.5]}), tmp_path / "3.parquet")
    convert_to_deltalake(tmp_path, name="n", description="d", configuration={"delta.checkpointInterval": "5"})
    table = DeltaTable(tmp_path)
    assert table.schema().names == ["a", "s", "b"]
    assert {tuple(map(str, row.items())) for row in table.to_pyarrow_table().to_pylist()} == {
        tuple(map(str, row.items()))
        for row in (
            {"a": 1, "s": {"x": 1, "y": None}, "b": None},
            {"a": None, "s": {"x": 2, "y": "q"}, "b": 2.5},
            {"a": None, "s": None, "b": 1.5},
        )
    }
    metadata = table.metadata()
    assert (metadata.name, metadata.description) == ("n", "d")
    assert metadata.configuration == {"delta.checkpointInterval": "5"}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"a": pa.array([1], pa.int32())}, "a is integer; expected long"),
        ({"a": ["x"]}, "a is string; expected long"),
        ({"A": [1]}, "A differs only in case from a"),
        ({"s": [{"x": "1"}]}, "s.x"),
        ({"l": [["x"]]}, "l.element"),
    ],
)
def test_files_that_contradict_each_other_are_named(tmp_path: Path, other: dict[str, object], text: str) -> None:
    pq.write_table(pa.table({"a": [1], "s": [{"x": 1}], "l": [[1]]}), tmp_path / "1.parquet")
    pq.write_table(pa.table(other), tmp_path / "2.parquet")
    with pytest.raises(SchemaMismatchError, match=r"the file 2\.parquet") as caught:
        convert_to_deltalake(tmp_path)
    assert text in caught.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.parquet", "2.parquet"]


def test_times_of_old_writers(tmp_path: Path) -> None:
    """INT96 is an instant, and days of the hybrid calendar get no statistics."""
    instants = pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us"))
    metadata = {b"org.apache.spark.version": b"2.4.8", b"org.apache.spark.timeZone": b"UTC"}
    table = pa.table({"at": instants, "day": pa.array([-354280], pa.date32()), "n": [1]})
    with pq.ParquetWriter(tmp_path / "1.parquet", table.schema, use_deprecated_int96_timestamps=True) as writer:
        writer.add_key_value_metadata(metadata)
        writer.write_table(table)
    convert_to_deltalake(tmp_path)
    opened = DeltaTable(tmp_path)
    assert opened.schema().to_arrow().types == [pa.timestamp("us", "UTC"), pa.date32(), pa.int64()]
    (stats,) = opened.snapshot.files["stats"].to_pylist()
    assert json.loads(stats)["minValues"] == {"n": 1}
    assert opened.to_pyarrow_table(filters="day = DATE '1000-01-01'").num_rows == 1


def test_folders_without_names(tmp_path: Path) -> None:
    for year in (2025, 2026):
        folder = tmp_path / str(year) / "a%20b"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [year]}), folder / "1.parquet")
    convert_to_deltalake(
        tmp_path, partition_by=pa.schema([("year", pa.int32()), ("text", pa.string())]), partition_strategy="directory"
    )
    rows = [{"id": year, "year": year, "text": "a b"} for year in (2025, 2026)]
    assert read_by_all(tmp_path).to_pylist() == rows
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="year = 2026").num_rows == 1


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    for name in ("_temporary/2.parquet", "_SUCCESS", ".1.parquet.crc", ".x/3.parquet", "_change_data/4.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    convert_to_deltalake(tmp_path, collect_stats=False)
    assert DeltaTable(tmp_path).files()["path"].to_pylist() == ["1.parquet"]
    assert DeltaTable(tmp_path).snapshot.files["stats"].to_pylist() == [None]
    assert read_by_all(tmp_path).to_pylist() == [{"id": 1}]


def write_text(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


def add_partition(root: Path) -> None:
    (root / "p=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), root / "p=1" / "2.parquet")


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda root: (root / "1.parquet").unlink(), InvalidArgumentError, "0 Parquet files"),
        (lambda root: write_text(root, "notes.txt"), InvalidArgumentError, "notes.txt"),
        (lambda root: write_text(root, "x/2.parquet"), StoreError, "x/2.parquet"),
        (lambda root: write_text(root, "x/_delta_log/0.json"), InvalidArgumentError, "tables in subfolders: x"),
        (lambda root: (root / "2.parquet").symlink_to(root / "1.parquet"), InvalidArgumentError, "links: 2.parquet"),
        (add_partition, InvalidArgumentError, "'p=1' has partition values"),
        (
            lambda root: pq.write_table(pa.table({"a=b": [1]}), root / "1.parquet"),
            InvalidSchemaError,
            "'a=b'",
        ),
        (
            lambda root: pq.write_table(pa.table({"t": pa.array([1], pa.time32("s"))}), root / "1.parquet"),
            InvalidSchemaError,
            "the file 1.parquet: column 't'",
        ),
    ],
    ids=["empty", "text", "damaged", "table", "link", "partition", "name", "type"],
)
def test_what_is_refused(tmp_path: Path, change: Callable[[Path], object], kind: type[DeltaError], text: str) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    change(tmp_path)
    with pytest.raises(kind) as caught:
        convert_to_deltalake(tmp_path)
    assert text in caught.value.message
    assert not DeltaTable.is_deltatable(tmp_path)


def test_partition_values_that_do_not_fit(tmp_path: Path) -> None:
    add_partition(tmp_path)
    (tmp_path / "p=x").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "p=x" / "2.parquet")
    with pytest.raises(InvalidArgumentError, match="column p: a partition value is not a valid integer"):
        convert_to_deltalake(tmp_path, partition_by=pa.schema([("p", pa.int32())]), partition_strategy="hive")
    with pytest.raises(InvalidArgumentError, match=r"has values for \[p\]; expected one for each of \[p, q\]"):
        convert_to_deltalake(
            tmp_path, partition_by=pa.schema([("p", pa.int32()), ("q", pa.int32())]), partition_strategy="hive"
        )
    with pytest.raises(InvalidArgumentError, match="expected both or neither"):
        convert_to_deltalake(tmp_path, partition_by=pa.schema([("p", pa.int32())]))
    assert not DeltaTable.is_deltatable(tmp_path)


def test_not_null_and_constraints_of_a_converted_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p=__HIVE_DEFAULT_PARTITION__").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "p=__HIVE_DEFAULT_PARTITION__" / "1.parquet")

    def convert(*, nullable: bool, **configuration: str) -> None:
        columns = pa.schema([pa.field("p", pa.string(), nullable=nullable)])
        convert_to_deltalake(tmp_path, partition_by=columns, partition_strategy="hive", configuration=configuration)

    with pytest.raises(ConstraintViolatedError, match="NOT NULL p"):
        convert(nullable=False)
    with pytest.raises(InvalidArgumentError, match="expected no constraint"):
        convert(nullable=True, **{"delta.constraints.large": "id > 1"})
    assert not DeltaTable.is_deltatable(tmp_path)
    convert(nullable=True)
    with pytest.raises(ConstraintViolatedError):
        DeltaTable(tmp_path).alter.add_constraint({"large": "id > 1"})


@pytest.mark.parametrize(
    ("metadata", "kind", "code"),
    [
        ({"delta.generationExpression": "id * 5"}, InvalidArgumentError, "DELTA_INVALID_GENERATED_COLUMN"),
        ({"__CHAR_VARCHAR_TYPE_STRING": "varchar(1)"}, UnsupportedFeatureError, "DELTA_UNSUPPORTED_FEATURE"),
        (
            {"delta.invariants": '{"expression": {"expression": "p > 9"}}'},
            UnsupportedFeatureError,
            "DELTA_UNSUPPORTED_FEATURE",
        ),
    ],
)
def test_a_partition_column_with_a_rule_is_refused(
    tmp_path: Path, metadata: dict[str, str], kind: type[DeltaError], code: str
) -> None:
    (tmp_path / "p=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "p=1" / "1.parquet")
    column = Schema([Field("p", "string" if "VARCHAR" in str(metadata) else "long", metadata=metadata)])
    with pytest.raises(kind) as refused:
        convert_to_deltalake(tmp_path, partition_by=column, partition_strategy="hive")
    assert refused.value.code == code
    assert not DeltaTable.is_deltatable(tmp_path)


def test_a_table_is_not_converted_again(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    with pytest.raises(InvalidArgumentError, match="columnMapping"):
        convert_to_deltalake(tmp_path, configuration={"delta.columnMapping.mode": "name"})
    convert_to_deltalake(tmp_path)
    convert_to_deltalake(tmp_path, mode="ignore")
    with pytest.raises(InvalidArgumentError, match="exists already"):
        convert_to_deltalake(tmp_path)
    assert DeltaTable(tmp_path).version() == 0


def test_row_tracking_numbers_the_rows(tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"id": np.arange(3) + 3 * number}), tmp_path / f"{number}.parquet")
    convert_to_deltalake(tmp_path, configuration={"delta.enableRowTracking": "true"})
    rows = pa.table(DeltaTable(tmp_path).scan(row_ids=True)).sort_by("id")
    assert rows["_metadata.row_id"].to_pylist() == list(range(6))
    assert pc.all(pc.equal(plain(rows)["_metadata.row_commit_version"], 0)).as_py()
