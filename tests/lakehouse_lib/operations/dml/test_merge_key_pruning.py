"""The files that a merge opens: those whose ranges hold a key of the source, however many keys there are."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.operations.dml.key_pruning import files_with_keys
from lakehouse_lib.schema import Schema, TableLayout
from tests.table_builder import files_with, write_files

ROWS = 10_000


def merged(table: DeltaTable, keys: list[Any], kind: pa.DataType) -> dict[str, Any]:
    source = pa.table({"id": pa.array(keys, kind), "amount": pa.array([-1] * len(keys), pa.int64())})
    return (
        table.merge(source, "target.id = source.id", source_alias="source", target_alias="target")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


@pytest.mark.parametrize("partition_by", [None, ["part"]])
def test_a_merge_of_many_keys_opens_only_files_that_hold_one(
    tmp_path: Path, engine: Engine, partition_by: list[str] | None
) -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    rows = pa.table({"id": numbers, "amount": numbers, "part": pc.divide(numbers, 1000)})
    for start in range(0, ROWS, 1000):
        write_files(tmp_path, rows.slice(start, 1000), 1, partition_by=partition_by)
    table = DeltaTable(tmp_path, engine=engine)
    keys = [*range(500), *range(9_400, 9_700)]  # the range of the keys is that of the whole table
    source = pa.table({"id": pa.array(keys, pa.int32()), "amount": pa.array([-1] * len(keys), pa.int64())})
    merge = table.merge(source, "target.id = source.id", source_alias="source", target_alias="target")
    metrics = merge.when_matched_update({"amount": "source.amount"}).execute()
    assert (metrics["num_target_files_scanned"], metrics["num_target_files_skipped_during_scan"]) == (2, 8)
    assert metrics["num_target_rows_updated"] == 800
    amounts = DeltaTable(tmp_path).to_pyarrow_table().filter(pc.field("amount") == -1)["id"].to_pylist()
    assert sorted(amounts) == keys


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 20)) | st.none(), min_size=1, max_size=8),
    st.lists(st.integers(-60, 60) | st.none(), max_size=8),
)
def test_a_file_is_left_out_only_if_its_range_holds_no_key(
    ranges: list[tuple[int, int] | None], keys: list[int | None]
) -> None:
    statistics = [
        None if each is None else f'{{"numRecords":1,"minValues":{{"id":{each[0]}}},"maxValues":{{"id":{sum(each)}}}}}'
        for each in ranges
    ]
    files = files_with(statistics)
    layout = TableLayout(Schema.from_arrow(pa.schema([("id", pa.int64())])))
    left = files_with_keys(files, layout, [("id", "key")], pa.table({"key": pa.array(keys, pa.int64())}))
    expected = [each is None or any(key is not None and each[0] <= key <= sum(each) for key in keys) for each in ranges]
    assert left.equals(files.filter(pa.array(expected)))


@pytest.mark.parametrize(
    ("kind", "low", "high", "key"),
    [
        (pa.string(), '"a"', '"c"', "b"),
        (pa.date32(), '"2026-01-01"', '"2026-02-01"', dt.date(2026, 1, 15)),
        (pa.timestamp("us", "UTC"), '"2026-01-01T00:00:00Z"', '"2026-02-01T00:00:00Z"', dt.datetime(2026, 1, 15)),
        (pa.float64(), "1.5", "2.5", 2.0),
    ],
)
def test_every_type_with_an_order(kind: pa.DataType, low: str, high: str, key: Any) -> None:
    statistics = f'{{"numRecords":1,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}}}}'
    files = files_with([statistics])
    layout = TableLayout(Schema.from_arrow(pa.schema([("id", kind)])))
    other = {pa.string(): "d", pa.date32(): dt.date(2027, 1, 1), pa.float64(): 9.0}.get(kind, dt.datetime(2027, 1, 1))
    for value, count in ((key, 1), (other, 0)):
        source = pa.table({"key": pa.array([value], kind)})
        assert len(files_with_keys(files, layout, [("id", "key")], source)) == count


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(("stored", "key"), [(-0.0, 0.0), (0.0, -0.0), (math.nan, -math.nan)])
def test_a_floating_point_partition_value_equals_a_key_of_other_bits(
    tmp_path: Path, engine: Engine, kind: pa.DataType, stored: float, key: float
) -> None:
    rows = pa.table({"id": pa.array([stored, 1.0], kind), "amount": pa.array([1, 2], pa.int64())})
    write_files(tmp_path, rows, 1, partition_by=["id"])
    metrics = merged(DeltaTable(tmp_path, engine=engine), [key], kind)
    assert (metrics["num_target_rows_updated"], metrics["num_target_rows_inserted"]) == (1, 0)
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["amount"].to_pylist()) == [-1, 2]


def test_keys_of_another_type_leave_out_no_file() -> None:
    files = files_with(['{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":2}}'])
    layout = TableLayout(Schema.from_arrow(pa.schema([("id", pa.int64())])))
    for keys in (pa.array([9.0]), pa.array(["9"]), pa.array([2**63], pa.uint64())):
        assert len(files_with_keys(files, layout, [("id", "key")], pa.table({"key": keys}))) == 1
