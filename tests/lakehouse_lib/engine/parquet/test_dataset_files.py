"""Which files a pyarrow dataset reads, and which it refuses because pyarrow would read other values."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs
import pytest

from lakehouse_lib import DeltaTable, UnsupportedFeatureError, write_deltalake
from lakehouse_lib.engine.arrow.checked_files import CheckedFiles
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.lakehouse_lib.engine.parquet.one_file_tables import NAME, one_file
from tests.log_builder import array, field, mapping, struct


def test_files_that_pyarrow_reads_wrongly_are_refused_as_a_dataset(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})
    fields = [field("k", "long"), field("v", "string")]
    one_file(tmp_path / "marked", rows, *fields)
    delete_by_vector(tmp_path / "marked", {"a.parquet": inline([1])})
    physical = pa.table({"p": rows["k"], "q": rows["v"]})
    one_file(
        tmp_path / "mapped",
        physical,
        field("k", "long", physical="p", id=1),
        field("v", "string", physical="q", id=2),
        features=["columnMapping"],
        configuration=NAME,
    )
    narrow = pa.table({"k": rows["k"].cast(pa.int8()), "v": rows["v"]})
    wide = field("k", "long", changes=[{"fromType": "byte", "toType": "long"}])
    one_file(tmp_path / "widened", narrow, wide, fields[1], features=["typeWidening"])
    for name, feature in (("marked", "deletionVectors"), ("mapped", "columnMapping"), ("widened", "typeWidening")):
        table = DeltaTable(tmp_path / name)
        with pytest.raises(UnsupportedFeatureError, match=feature) as refused:
            table.to_pyarrow_dataset()
        assert "to_pyarrow_table" in str(refused.value)
        matches = table.to_pyarrow_table(columns=["v"], filters=pc.field("k") >= 2).to_pylist()
        assert matches == ([{"v": "c"}] if name == "marked" else [{"v": "b"}, {"v": "c"}])
        assert table.count() == len(table.to_pyarrow_table())
    plain = one_file(tmp_path / "plain", rows, *fields)
    assert isinstance(DeltaTable(plain).to_pyarrow_dataset(), pads.Dataset)


INSTANT = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)

IN_NANOSECONDS = pa.array([1_000_000_001], pa.timestamp("ns", "UTC"))

#: A column, its name and value in a file of another writer, and the expected value.
BY_OTHERS = {
    "name": (field("v", "long"), "V", pa.array([1]), 1),
    "member": (field("v", struct(field("a", "long"))), "v", pa.array([{"A": 1}]), {"a": 1}),
    "element": (field("v", array(struct(field("a", "long")))), "v", pa.array([[{"A": 1}]]), [{"a": 1}]),
    "entry": (
        field("v", mapping("string", struct(field("a", "long")))),
        "v",
        pa.array([[("k", {"A": 1})]], pa.map_(pa.string(), pa.struct([("A", pa.int64())]))),
        [("k", {"a": 1})],
    ),
    "nanoseconds": (field("v", "timestamp"), "v", IN_NANOSECONDS, INSTANT),
    "nanoseconds within": (
        field("v", struct(field("t", "timestamp"))),
        "v",
        pa.StructArray.from_arrays([IN_NANOSECONDS], ["t"]),
        {"t": INSTANT},
    ),
    "wide integers": (field("v", "decimal(12,4)"), "v", pa.array([1], pa.int32()), Decimal("1.0000")),
}


@pytest.mark.parametrize("case", BY_OTHERS)
def test_a_dataset_refuses_files_that_pyarrow_reads_otherwise(tmp_path: Path, case: str) -> None:
    column, name, values, expected = BY_OTHERS[case]
    one_file(tmp_path, pa.table({"k": [1], name: values}), field("k", "long"), column)
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table().to_pylist() == [{"k": 1, "v": expected}]
    for where in (pc.field("v").is_valid(), pc.field("k") == 1):
        assert table.to_pyarrow_table(filters=where).to_pylist() == [{"k": 1, "v": expected}]
    local = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for dataset in (table.to_pyarrow_dataset(), table.to_pyarrow_dataset(filesystem=local)):
        with pytest.raises(UnsupportedFeatureError, match=r"the column v.* in a\.parquet .*version \d.*with scan\("):
            dataset.to_table()
    narrower = table.to_pyarrow_dataset(schema=pa.schema([("k", pa.int64())]))
    assert narrower.to_table().to_pylist() == [{"k": 1}]


def test_a_dataset_accepts_files_that_pyarrow_reads_correctly(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "V": [0],  # the file also has the exact name, so this is another column
            "v": pa.array([1], pa.int32()),
            "d": pa.array([1], pa.int32()),
            "t": pa.array([1000], pa.timestamp("ms", "UTC")),
            "s": pa.array([{"b": 2, "a": 1}]),
        }
    )
    members = struct(field("a", "long"), field("b", "long"), field("c", "long"))
    fields = [field("v", "long"), field("d", "decimal(12,2)"), field("t", "timestamp"), field("s", members)]
    one_file(tmp_path, rows, *fields)
    expected = {"v": 1, "d": Decimal("1.00"), "t": INSTANT, "s": {"a": 1, "b": 2, "c": None}}
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table().to_pylist() == table.to_pyarrow_dataset().to_table().to_pylist() == [expected]


def test_a_dataset_checks_files_when_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(tmp_path, pa.table({"day": ["mon", "tue"], "k": [1, 2]}), partition_by="day")
    opened: list[str] = []
    open_input_file = CheckedFiles.open_input_file

    def noted(self: CheckedFiles, path: str) -> pa.NativeFile:
        opened.append(path)
        return open_input_file(self, path)

    monkeypatch.setattr(CheckedFiles, "open_input_file", noted)
    dataset = pickle.loads(pickle.dumps(DeltaTable(tmp_path).to_pyarrow_dataset()))
    assert not opened
    assert dataset.to_table(filter=pc.field("day") == "mon").to_pylist() == [{"day": "mon", "k": 1}]
    assert len(opened) == 1
    (tmp_path / opened[0]).write_bytes(b"no Parquet")
    with pytest.raises(pa.ArrowInvalid, match=opened[0]):
        DeltaTable(tmp_path).to_pyarrow_dataset().to_table()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("float", pa.array([1e300])),
        ("string", pa.array([1])),
        ("double", pa.array([2**53 + 1])),
        ("long", pa.array(["1"])),
    ],
)
def test_a_dataset_refuses_types_that_scan_refuses(tmp_path: Path, kind: str, values: pa.Array) -> None:
    one_file(tmp_path, pa.table({"v": values}), field("v", kind))
    with pytest.raises(UnsupportedFeatureError, match=f"the column v is {values.type}, not .* in a.parquet"):
        DeltaTable(tmp_path).to_pyarrow_dataset().to_table()
    narrower = DeltaTable(tmp_path).to_pyarrow_dataset(schema=pa.schema([("v", values.type)]))
    with pytest.raises(UnsupportedFeatureError, match="the column v"):
        narrower.to_table()


def test_a_dataset_of_other_types_reads_the_types_of_the_table(tmp_path: Path) -> None:
    one_file(tmp_path, pa.table({"v": [1.5], "t": ["a"]}), field("v", "double"), field("t", "string"))
    schema = pa.schema([("v", pa.float32()), ("t", pa.large_string())])
    assert DeltaTable(tmp_path).to_pyarrow_dataset(schema=schema).to_table().to_pylist() == [{"v": 1.5, "t": "a"}]
