"""A table with clustering columns, and what its log says of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import DeltaError

BY = ["x", "y"]
MAPPED = {"delta.columnMapping.mode": "name"}
DOMAIN = "delta.clustering"


def rows(count: int = 4_000, seed: int = 0) -> pa.Table:
    numbers = random.Random(seed)
    values = [[numbers.randrange(10_000) for _ in range(count)] for _ in range(2)]
    return pa.table({"id": pa.array(range(count), pa.int64()), "x": values[0], "y": values[1]})


def clustered(root: Path, **options: Any) -> DeltaTable:
    """A table with two files that is clustered by BY; nothing is clustered yet."""
    write_deltalake(root, rows(), **options)
    table = DeltaTable(root)
    table.alter.cluster_by(BY)
    write_deltalake(table, rows(seed=1), mode="append")
    return table


def domain(table: DeltaTable) -> Any:
    return json.loads(table.snapshot.domains[DOMAIN].configuration)["clusteringColumns"]


def actions(root: Path, version: int, kind: str) -> list[Any]:
    lines = (root / f"_delta_log/{version:020}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def providers(table: DeltaTable) -> list[str | None]:
    return table.snapshot.files["clusteringProvider"].to_pylist()


def refused(error: type[DeltaError], code: str, verb: Callable[[], object]) -> DeltaError:
    with pytest.raises(error) as caught:
        verb()
    assert caught.value.code == code
    return caught.value
