"""The bounds of all live files: from the struct form of a checkpoint or from the JSON, and from later commits."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.statistics import bounds_of
from lakehouse_lib.store import open_store

COLUMNS = {("id",): PrimitiveType("long"), ("name",): PrimitiveType("string"), ("none",): PrimitiveType("date")}


def rows(first: int, last: int) -> pa.Table:
    ids = list(range(first, last))
    return pa.table({"id": ids, "name": [f"n{number:03d}" for number in ids], "none": pa.nulls(len(ids), pa.date32())})


@pytest.mark.parametrize("has_structs", [True, False])
def test_bounds_are_those_of_the_statistics_of_live_files(tmp_path: Path, has_structs: bool) -> None:
    root = tmp_path / "t"
    form = {
        "delta.checkpoint.writeStatsAsStruct": str(has_structs).lower(),
        "delta.checkpoint.writeStatsAsJson": str(not has_structs).lower(),
    }
    for number in range(6):
        deltalake.write_deltalake(root, rows(number * 10, number * 10 + 15), mode="append", configuration=form)
    DeltaTable(root).create_checkpoint()
    deltalake.DeltaTable(root).delete("id >= 20 AND id < 30")
    deltalake.write_deltalake(root, rows(500, 501), mode="append")
    snapshot = load_snapshot(open_store(root))
    assert snapshot.checkpoint_version == 5
    bounds, paths = snapshot.query(lambda state: (state.files.bounds(COLUMNS), state.files.columns(["path"])))
    expected = bounds_of(snapshot.files, COLUMNS)
    assert paths["path"] == snapshot.files["path"]
    assert list(bounds) == list(COLUMNS)
    for path, column in bounds.items():
        assert (column.min, column.max) == (expected[path].min, expected[path].max)
        assert (column.null_count, column.num_records) == (expected[path].null_count, expected[path].num_records)
    pairs = set(zip(bounds["id",].min.to_pylist(), bounds["id",].max.to_pylist(), strict=True))
    actions = pa.table(deltalake.DeltaTable(root).get_add_actions(flatten=True))
    assert pairs == set(zip(actions["min.id"].to_pylist(), actions["max.id"].to_pylist(), strict=True))
