"""Data files of other writers, complete and damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties
from deltalake import write_deltalake as write_delta_rs

from lakehouse_lib import DeltaTable, InvalidPredicateError, StoreError, write_deltalake
from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.expressions import parse
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.log_builder import array, data_file, field, mapping, put_table, struct


def test_nan_is_found_beyond_the_row_groups_statistics(tmp_path: Path) -> None:
    # Parquet's min and max leave out NaN, which is above every number in Spark's order and in ours.
    rows = pa.table({"x": [1.0, 2.0, float("nan"), 1.0], "id": [1, 2, 3, 4]})
    write_delta_rs(str(tmp_path), rows, writer_properties=WriterProperties(max_row_group_size=2))
    (file,) = tmp_path.glob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups == 2
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="x > 5")["id"].to_pylist() == [3]
    assert DeltaTable(tmp_path).delete("x > 5")["num_deleted_rows"] == 1
    assert DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [1, 2, 4]


def test_members_that_have_changed_names_skip_no_rows(tmp_path: Path) -> None:
    # Two members of the same type are renamed to each other, so the file's struct has the table's type but other names.
    rows = pa.table({"s": [{"a": "x", "b": "1"}, {"a": "y", "b": "2"}]})
    members = (field("a", "string", physical="b", id=3), field("b", "string", physical="a", id=2))
    put_table(
        tmp_path,
        [field("s", struct(*members), physical="s", id=1)],
        [data_file(tmp_path, "a.parquet", rows, row_group_size=1)],
        features=["columnMapping"],
        configuration={"delta.columnMapping.mode": "name"},
    )
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="s.a = '2'").to_pylist() == [{"s": {"a": "2", "b": "y"}}]


def test_a_files_own_copy_of_a_partition_column_skips_no_rows(tmp_path: Path) -> None:
    # As in converted tables: the file's column has 5, and the log, which counts, has 1.
    rows = pa.table({"id": pa.array(range(6)), "p": pa.array([5] * 6)})
    add = data_file(tmp_path, "p=1/a.parquet", rows, partition={"p": "1"}, row_group_size=2)
    put_table(tmp_path, [field("id", "long"), field("p", "long")], [add], partition_by=["p"])
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table(filters="p = 1 AND id > 3").to_pylist() == [{"id": 4, "p": 1}, {"id": 5, "p": 1}]
    assert table.delete("p = 1 AND id > 3")["num_deleted_rows"] == 2
    assert DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [0, 1, 2, 3]


def test_row_groups_are_skipped_beside_a_condition_on_partition_values(tmp_path: Path) -> None:
    rows = pa.table({"id": range(100)})
    add = data_file(tmp_path, "p=1/a.parquet", rows, partition={"p": "1"}, row_group_size=10)
    put_table(tmp_path, [field("id", "long"), field("p", "long")], [add], partition_by=["p"])
    snapshot = DeltaTable(tmp_path).snapshot
    every = [*range(10)]
    for sql, groups in [("p = 1 AND id > 84", [8, 9]), ("p = 1", every), ("p = 2 OR id > 84", every)]:
        predicate = parse(sql, snapshot.schema)
        reader = Scan.of(snapshot, None, predicate).reader
        with reader.open("p=1/a.parquet", None) as file:
            assert reader.candidates(file, predicate) == groups, sql
    matches = DeltaTable(tmp_path).to_pyarrow_table(filters="p = 1 AND id > 84")
    assert matches["id"].to_pylist() == [*range(85, 100)]


def test_arithmetic_of_bounds_beyond_a_long_skips_no_rows(tmp_path: Path) -> None:
    # No row overflows, because the greatest x and the least y are in different rows.
    greatest = (1 << 63) - 1
    rows = pa.table({"x": [greatest, 1, 1, 1], "y": [-1, 1, 1, 1]})
    types = [field("x", "long"), field("y", "long")]
    put_table(tmp_path, types, [data_file(tmp_path, "a.parquet", rows, row_group_size=2)])
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="x + y = 2")["x"].to_pylist() == [1, 1, 1]
    put_table(tmp_path / "b", types[:1], [data_file(tmp_path / "b", "b.parquet", rows.select(["x"]), row_group_size=2)])
    with pytest.raises(InvalidPredicateError, match="overflow") as raised:
        DeltaTable(tmp_path / "b").delete("x + 1 = 2")
    assert raised.value.table == str(tmp_path / "b")
    assert DeltaTable(tmp_path / "b").version() == 0


def test_rows_of_a_file_with_views_are_left_out(tmp_path: Path) -> None:
    # Polars passes text to delta-rs in this type, and delta-rs notes the Arrow types in the file. Other writers write
    # deletion vectors.
    word, raw = pa.string_view(), pa.binary_view()
    kinds = {
        "s": word,
        "b": raw,
        "l": pa.list_(word),
        "g": pa.large_list(raw),
        "f": pa.list_(word, 1),
        "t": pa.struct([("s", word), ("n", pa.int64())]),
        "m": pa.map_(word, word),
    }
    row = {"s": "x", "b": b"x", "l": ["x"], "g": [b"x"], "f": ["x"], "t": {"s": "x", "n": 1}, "m": [("x", "y")]}
    missing = dict.fromkeys(kinds)
    rows = pa.Table.from_pylist([row, row, missing, row], pa.schema({"id": pa.int64()} | kinds))
    rows = rows.set_column(0, "id", pa.array(range(4)))
    types = {"s": "string", "b": "binary", "l": array("string"), "g": array("binary"), "f": array("string")}
    types |= {"t": struct(field("s", "string"), field("n", "long")), "m": mapping("string", "string")}
    fields = [field("id", "long"), *(field(name, kind) for name, kind in types.items())]
    put_table(tmp_path, fields, [data_file(tmp_path, "a.parquet", rows)])
    delete_by_vector(tmp_path, {"a.parquet": inline([1])})
    assert pq.read_schema(tmp_path / "a.parquet").field("s").type == word
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [
        {"id": 0, **row},
        {"id": 2, **missing},
        {"id": 3, **row},
    ]
    assert DeltaTable(tmp_path).delete("id = 3")["num_deleted_rows"] == 1
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [{"id": 0, **row}, {"id": 2, **missing}]


def _without_its_end(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _with_a_damaged_page(data: bytes) -> bytes:
    return data[:10] + bytes(60) + data[70:]


def _with_a_damaged_footer(data: bytes) -> bytes:
    return data[:-60] + b"\xff" * 50 + data[-10:]


@pytest.mark.parametrize("damage", [_without_its_end, _with_a_damaged_page, _with_a_damaged_footer])
@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.to_pyarrow_table(),
        lambda table: table.delete("id = 1"),
        lambda table: table.optimize.compact(),
        lambda table: table.optimize.z_order(["id"]),
    ],
    ids=["read", "delete", "compact", "z_order"],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, damage: Callable[[bytes], bytes], verb: Callable[[DeltaTable], object]
) -> None:
    for start in (0, 10):
        write_deltalake(tmp_path, pa.table({"id": range(start, start + 10), "text": ["word"] * 10}), mode="append")
    table = DeltaTable(tmp_path)
    file = Path(table.file_uris()[0])
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(StoreError, match=file.name) as refused:
        verb(table)
    assert refused.value.table == str(tmp_path)
    assert DeltaTable(tmp_path).version() == 1


def test_counts_of_rows_that_contradict_each_other_are_damage(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": range(10), "text": ["word"] * 10, "day": ["x"] * 10}), partition_by="day")
    whole = DeltaTable(tmp_path).to_pyarrow_table()
    file = Path(DeltaTable(tmp_path).file_uris()[0])
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    refused = 0
    for place in range(start, len(data) - 8):
        if data[place] == 20:  # Thrift's encoding of ten
            file.write_bytes(data[:place] + b"\x06" + data[place + 1 :])
            try:
                answer = DeltaTable(tmp_path).to_pyarrow_table()
            except StoreError as error:
                answer, refused = whole, refused + (file.name in str(error))
            assert answer == whole
    assert refused > 1


def test_a_column_name_that_is_not_utf8_is_damage(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"name": ["x"]}))
    file = Path(DeltaTable(tmp_path).file_uris()[0])
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    file.write_bytes(data[:start] + data[start:].replace(b"name", b"n\xedme"))
    with pytest.raises(StoreError, match=f"{file.name} cannot be read as Parquet"):
        DeltaTable(tmp_path).to_pyarrow_table()


def test_a_column_whose_name_differs_in_case_skips_no_rows(tmp_path: Path) -> None:
    rows = pa.table([pa.array(range(10)), pa.array([100] * 10)], names=["id", "ID"])
    put_table(tmp_path, [field("id", "long")], [data_file(tmp_path, "a.parquet", rows, row_group_size=5)])
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="id = 3").to_pylist() == [{"id": 3}]
