"""The tables that tests of partial overwrites begin with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakehouse_lib import DeltaTable
from tests.table_builder import write_files

ROWS = 200


def rows(start: int = 0, count: int = ROWS) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "part": [f"p{number // 50 % 3}" for number in numbers],
            "name": pa.array([None if number % 7 == 0 else f"name {number % 13}" for number in numbers], pa.string()),
            "count": pa.array([None if number % 11 == 0 else number % 50 for number in numbers], pa.int32()),
        }
    )


def made(root: Path, *, files: int = 3, partition_by: list[str] | None = None, **properties: str) -> DeltaTable:
    write_files(root, rows(0, files * ROWS), files, partition_by=partition_by, configuration=properties)
    return DeltaTable(root)
