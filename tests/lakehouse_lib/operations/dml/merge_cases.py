"""Tables, sources and clauses of merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib import DeltaTable
from tests.table_builder import write_files

ROWS = 200
ON = "target.id = source.id"


def rows(start: int = 0, count: int = ROWS) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "part": [f"p{number // 100 % 3}" for number in numbers],
            "name": [None if number % 7 == 0 else f"name {number % 13}" for number in numbers],
            "amount": pa.array([number * 1.5 for number in numbers], pa.float64()),
        }
    )


def made(root: Path, *, files: int = 3, partition_by: list[str] | None = None, **properties: str) -> DeltaTable:
    write_files(root, rows(0, files * ROWS), files, partition_by=partition_by, configuration=properties)
    return DeltaTable(root)


def source(ids: list[int | None], **columns: list[Any]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": columns.get("part", [f"p{(number or 0) % 3}" for number in ids]),
            "name": columns.get("name", [f"new {number}" for number in ids]),
            "amount": pa.array(columns.get("amount", [-float(number or 0) for number in ids]), pa.float64()),
        }
    )


#: A clause: the method, and its arguments.
Clause = tuple[str, dict[str, Any]]


def run(table: Any, data: pa.Table, condition: str, clauses: list[Clause]) -> dict[str, Any]:
    merger = table.merge(data, condition, source_alias="source", target_alias="target")
    for method, arguments in clauses:
        merger = getattr(merger, method)(**arguments)
    metrics: dict[str, Any] = merger.execute()
    return metrics
