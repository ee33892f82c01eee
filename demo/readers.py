"""Read a version of a Delta table with this library, delta-rs and DuckDB, as a fingerprint of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import deltalake
import duckdb
import duckdb_extension_delta

from lakehouse_lib import DeltaTable


@dataclass(frozen=True)
class Fingerprint:
    """The number of rows and the sum of their hashes, which are equal for equal rows in any order."""

    rows: int
    hash: int


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the delta extension from the installed wheel, without a download."""
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute(f"LOAD '{extension}'")
    # With a fixed zone, timestamps are comparable.
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lakehouse_table(connection: duckdb.DuckDBPyConnection, path: Path, version: int) -> Fingerprint:
    return of_arrow(connection, DeltaTable(str(path), version=version).to_pyarrow_table())


def delta_rs(connection: duckdb.DuckDBPyConnection, path: Path, version: int) -> Fingerprint:
    return of_arrow(connection, deltalake.DeltaTable(str(path), version=version).to_pyarrow_table())


def duckdb_delta(connection: duckdb.DuckDBPyConnection, path: Path, version: int) -> Fingerprint:
    # The extension takes no bound parameters; the version is an int, and the path is quoted.
    return _fingerprint(connection, f"delta_scan({_quoted(path)}, version => {int(version)})")


READERS: dict[str, Callable[[duckdb.DuckDBPyConnection, Path, int], Fingerprint]] = {
    "we": lakehouse_table,
    "delta-rs": delta_rs,
    "DuckDB": duckdb_delta,
}


def of_arrow(connection: duckdb.DuckDBPyConnection, table: object) -> Fingerprint:
    """The fingerprint of an Arrow table."""
    connection.register("arrow_table", table)
    try:
        return _fingerprint(connection, "arrow_table")
    finally:
        connection.unregister("arrow_table")


def _fingerprint(connection: duckdb.DuckDBPyConnection, relation: str) -> Fingerprint:
    names = sorted(name for name, *_ in connection.execute(f"describe select * from {relation}").fetchall())  # noqa: S608
    columns = ", ".join(f'"{name}"' for name in names)
    row = connection.execute(
        f"select count(*), coalesce(sum(hash({columns})::hugeint), 0) from {relation}"  # noqa: S608
    ).fetchone()
    assert row is not None  # an aggregate without groups always has one row
    return Fingerprint(int(row[0]), int(row[1]))


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
