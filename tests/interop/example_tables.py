"""Tables of the examples of the ``deltalake`` package's documentation, and the two packages that run them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa


def package(name: str, schema: str) -> Any:
    """The imports of an example, from either package."""
    return SimpleNamespace(**vars(importlib.import_module(schema)) | public(importlib.import_module(name)))


def public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__}


DELTA_RS = package("deltalake", "deltalake.schema")
LAKEHOUSE = package("lakehouse_lib", "lakehouse_lib.schema")


#: Code of an example; it gets a package and the path of its table, or of the tables.
Example = Callable[[Any, str], Any]


class Examples(dict[str, Example]):
    """Examples by their names."""

    def add(self, function: Example) -> Example:
        """Add a function; a decorator."""
        self[function.__name__] = function
        return function


def make_tables(root: Path) -> None:
    """Make the tables that examples read.

    ``letters``: created, appended to, overwritten. ``days``: in folders of year, month and day. ``feed``: with a change
    data feed. There is one commit a minute, so that times differ.
    """
    letters = str(root / "letters")
    for mode, numbers, shown in (
        ("error", [1, 2, 3], ["a", "b", "c"]),
        ("append", [8, 9], ["dd", "ee"]),
        ("overwrite", [11, 22], ["aa", "bb"]),
    ):
        rows = pd.DataFrame({"num": numbers, "letter": shown})
        DELTA_RS.write_deltalake(letters, rows, mode=mode, name="letters", description="numbers and letters")
    days = pa.table(
        {
            "value": ["1", "2", "3", "6", "7", "5", "4"],
            "year": ["2020", "2020", "2020", "2021", "2021", "2021", "2021"],
            "month": ["1", "2", "2", "12", "12", "12", "4"],
            "day": ["1", "3", "5", "20", "20", "4", "5"],
        }
    )
    DELTA_RS.write_deltalake(str(root / "days"), days, partition_by=["year", "month", "day"])
    feed = str(root / "feed")
    on = {"delta.enableChangeDataFeed": "true"}
    DELTA_RS.write_deltalake(feed, pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]}), configuration=on)
    DELTA_RS.DeltaTable(feed).update(updates={"name": "'z'"}, predicate="id > 2")
    DELTA_RS.DeltaTable(feed).delete("id = 1")
    DELTA_RS.write_deltalake(feed, pa.table({"id": [5], "name": ["e"]}), mode="append")
    for log in root.glob("*/_delta_log"):
        for version, commit in enumerate(sorted(log.glob("0*.json"))):
            os.utime(commit, (1_700_000_000 + 60 * version,) * 2)


def table_of(m: Any, path: str, rows: dict[str, list[Any]], **options: Any) -> Any:
    m.write_deltalake(path, pa.table(rows), **options)
    return m.DeltaTable(path)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Sorted rows, because neither package guarantees an order."""
    return sorted(frame.to_dict("records"), key=str)


def changes(reader: Any) -> list[tuple[Any, ...]]:
    """Sorted rows of a change data feed, without the times of its commits."""
    table = pa.table(reader)
    return sorted(tuple(row[name] for name in sorted(row) if name != "_commit_timestamp") for row in table.to_pylist())


def described(path: str) -> dict[str, Any]:
    """A table as delta-rs reads it, without what differs between two tables of the same history."""
    table = deltalake.DeltaTable(path)
    metadata = table.metadata()
    rows = table.to_pyarrow_table().to_pylist()
    return {
        "version": table.version(),
        "schema": table.schema().to_json(),
        "partition columns": metadata.partition_columns,
        "name": (metadata.name, metadata.description),
        "properties": metadata.configuration,
        "rows": sorted(rows, key=str),
    }
