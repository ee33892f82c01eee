"""Check results with other readers: DuckDB reads the rows, delta-rs lists the files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import duckdb
import duckdb_extension_delta
import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable


class Content(NamedTuple):
    """The number of rows and the sum of their hashes, which are equal for equal rows in any order."""

    rows: int
    checksum: int


def files(table: Path) -> list[str]:
    """The live data files."""
    return [uri.removeprefix("file://") for uri in DeltaTable(str(table)).file_uris()]


def content(table: Path, where: str = "true") -> Content:
    """The content of a table's rows for which a condition is true."""
    query = (
        "SELECT count(*), coalesce(sum(hash(order_id, customer, item, quantity, day, status)::HUGEINT), 0) "
        f"FROM delta_scan($1) WHERE {where}"
    )
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        row = connection.execute(query, [str(table)]).fetchone()
    assert row is not None
    return Content(int(row[0]), int(row[1]))


def skipped(table: Path, column: str, points: int = 200) -> float:
    """The mean share of files that a point predicate skips, for ``points`` values between the column's min and max."""
    lows, highs = [], []
    for path in files(table):
        footer = pq.ParquetFile(path).metadata
        index = [footer.schema.column(i).name for i in range(footer.num_columns)].index(column)
        groups = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        lows.append(min(statistics.min for statistics in groups))
        highs.append(max(statistics.max for statistics in groups))
    values = np.random.default_rng(1).integers(min(lows), max(highs), points)[:, None]
    read = (np.array(lows) <= values) & (values <= np.array(highs))
    return float(1 - read.mean())
