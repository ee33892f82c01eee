"""Tables whose files are in the order of arrival, and the engines that sort them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store
from tests.table_builder import write_files

ROWS = 40_000
ENGINES = ("arrow", "spark", "spark's shuffle")


def engine_of(request: pytest.FixtureRequest) -> Engine:
    """The engine of ENGINES that a fixture is asked for."""
    if request.param == "arrow":
        return ArrowEngine()
    chosen = SparkEngine(request.getfixturevalue("spark"))
    assert chosen.shares_disk
    chosen.shares_disk = request.param == "spark"
    return chosen


def build(root: Path) -> None:
    make(root, rows(ROWS), files=20)


def rows(count: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "customer": random.integers(0, 5_000, count),
            "item": random.integers(0, 2_000, count).astype(np.int32),
            "status": pa.array(np.array(["open", "paid", "sent"])[random.integers(0, 3, count)]),
        }
    )


def make(path: Path, data: pa.Table, *, files: int = 4, partition_by: list[str] | None = None) -> str:
    write_files(path, data, files, writer=write_deltalake, partition_by=partition_by)
    return str(path)


def snapshot_of(uri: str, version: int | None = None) -> Snapshot:
    return load_snapshot(open_store(uri), version)


def target_for(uri: str, files: int) -> int:
    sizes = snapshot_of(uri).files["size"].to_pylist()
    return math.ceil(sum(sizes) / files)
