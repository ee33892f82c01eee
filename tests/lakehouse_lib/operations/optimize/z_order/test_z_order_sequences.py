"""Appends, deletes and Z-orders in any order keep every row, of many types, in partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.operations.optimize.z_order import tags
from tests.peers import read_duckdb


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_lost_or_doubled_in_any_order_of_verbs(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = {0: ["text", "amount"], 1: ["at", "number"], 2: ["number", "text", "amount"]}[seed]
    write_deltalake(tmp_path, _rows(random, 0, 3_000), partition_by=["part"])
    if seed:
        DeltaTable(tmp_path).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    count = 3_000
    size = sum(DeltaTable(tmp_path).snapshot.files["size"].to_pylist()) // 24
    ids = set(range(count))
    merged = False
    for _ in range(12):
        verb = random.choice(["append", "append", "delete"])
        if verb == "append":
            new = int(random.integers(50, 700))
            write_deltalake(tmp_path, _rows(random, count, new), mode="append")
            ids |= set(range(count, count + new))
            count += new
        else:
            low = int(random.integers(0, count))
            DeltaTable(tmp_path).delete(f"id >= {low} AND id < {low + 150} AND id % 3 = {low % 3}")
            ids -= {value for value in range(low, low + 150) if value % 3 == low % 3}
        before = str(read_duckdb(tmp_path).to_pydict())  # NaN does not equal itself
        runs = _runs(tmp_path)
        DeltaTable(tmp_path).optimize.z_order(columns, target_size=size)
        merged |= any(run in runs.values() for path, run in _runs(tmp_path).items() if path not in runs)
        assert str(read_duckdb(tmp_path).to_pydict()) == before
        assert DeltaTable(tmp_path).optimize.z_order(columns, target_size=size)["numFilesAdded"] == 0
    assert merged  # new files belong to an earlier run
    assert read_duckdb(tmp_path)["id"].to_pylist() == sorted(ids)
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == sorted(ids)


def _runs(root: Path) -> dict[str, str]:
    """The run of each Z-ordered file."""
    files = DeltaTable(root).snapshot.files
    pairs = zip(files["path"].to_pylist(), files["tags"].to_pylist(), strict=True)
    return {path: dict(tag)[tags.RUN] for path, tag in pairs if tag}


def _rows(random: np.random.Generator, start: int, count: int) -> pa.Table:
    """Rows with nulls, skew, NaN and few values; the partition is part of the data."""
    numbers = random.integers(0, 500, count).tolist()
    nulls = (random.random(count) < 0.05).tolist()

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if null else value for null, value in zip(nulls, values, strict=True)], kind)

    first = datetime(2020, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "text": column([f"{'ä' * (n % 2)}{n:03}" for n in numbers], pa.string()),
            "amount": column([Decimal(n * n) / 100 for n in numbers], pa.decimal128(20, 2)),
            "at": column([first + timedelta(hours=n) for n in numbers], pa.timestamp("us", "UTC")),
            "number": column([float("nan") if n % 50 == 0 else n**3 / 7 for n in numbers], pa.float64()),
            "part": pa.array(["a" if n % 3 else "b" for n in numbers]),
        }
    )
