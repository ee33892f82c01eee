"""Check results with other readers: DuckDB reads the rows, delta-rs lists the files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import duckdb
import duckdb_extension_delta
import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

#: DuckDB's limit, which leaves memory for the page cache.
_MEMORY = "6GB"


class Content(NamedTuple):
    """The number of rows and the sum of their hashes, which are equal for equal rows in any order."""

    rows: int
    checksum: int


def files(table: Path) -> list[str]:
    """The live data files."""
    return [uri.removeprefix("file://") for uri in DeltaTable(str(table)).file_uris()]


def content(table: Path, query: str = "FROM target") -> Content:
    """The content of the rows of a query in DuckDB's SQL. ``target`` is the table."""
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    with duckdb.connect(config={"memory_limit": _MEMORY}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CREATE VIEW target AS FROM delta_scan({_literal(table)})")
        row = connection.execute(
            f"SELECT count(*), coalesce(sum(hash(*COLUMNS(*))::HUGEINT), 0) FROM ({query})"
        ).fetchone()
    assert row is not None
    return Content(int(row[0]), int(row[1]))


def files_with_rows(table: Path, condition: str) -> int:
    """The number of data files that have a row for which a condition is true, of a table without deletion vectors."""
    with duckdb.connect(config={"memory_limit": _MEMORY}) as connection:
        row = connection.execute(
            f"SELECT count(DISTINCT filename) FROM read_parquet($1, filename = true) WHERE {condition}", [files(table)]
        ).fetchone()
    assert row is not None
    return int(row[0])


def merged(source: Path) -> str:
    """A query of the rows of ``target`` after a merge by ``order_id`` that updates and inserts all rows of a file."""
    rows = f"read_parquet({_literal(source)})"
    return f"SELECT * FROM target ANTI JOIN {rows} USING (order_id) UNION ALL BY NAME FROM {rows}"


def in_source(source: Path) -> str:
    """A condition that is true for the rows whose ``order_id`` is in a file."""
    return f"order_id IN (SELECT order_id FROM read_parquet({_literal(source)}))"


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


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
