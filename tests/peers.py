"""Readers of Delta tables: our engines, and delta-rs (`deltalake`) and DuckDB, with which they are compared.

All return tables in one plain form, so that `==` means equal rows: no dictionaries, no large types, no schema metadata,
timestamps with a zone as microseconds in UTC, rows sorted by all columns.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

import lakehouse_lib
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.expressions import parse


def duckdb_delta() -> duckdb.DuckDBPyConnection:
    """A connection to this process's DuckDB, which has the delta extension and cannot download anything."""
    return _duckdb().cursor()


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # DuckDB hashes all 82 MB of the extension to check its signature, 0.15 s for each database. The lock file
            # has the hash of the wheel.
            "allow_unsigned_extensions": "true",
            # Tests replace files within the second by which DuckDB would notice it.
            "enable_external_file_cache": "false",
            "threads": "1",
        }
    )
    connection.execute(f"LOAD '{extension}'")
    return connection


def read_duckdb(uri: str | Path, version: int | None = None) -> pa.Table:
    """Every row of a version as DuckDB reads it, plain and sorted."""
    chosen = "" if version is None else f", version => {int(version)}"
    with duckdb_delta() as connection:
        return plain(connection.execute(f"SELECT * FROM delta_scan($1{chosen})", [str(uri)]).to_arrow_table())


def read_delta_rs(
    uri: str | Path, version: int | None = None, storage_options: dict[str, str] | None = None
) -> pa.Table:
    """Every row of a version as delta-rs reads it, plain and sorted."""
    return plain(DeltaTable(str(uri), version=version, storage_options=storage_options).to_pyarrow_table())


def read_engine(
    engine: Engine,
    table: lakehouse_lib.DeltaTable | Path,
    where: str | None = None,
    columns: list[str] | None = None,
    **options: Any,
) -> pa.Table:
    """The rows of a table as one of our engines reads them, plain and sorted.

    Args:
        table: an open table, or a location that is opened with ``options``.
        where: a SQL condition.
    """
    opened = lakehouse_lib.DeltaTable(table, **options) if isinstance(table, Path) else table
    predicate = parse(where, opened.schema()) if where else None
    return plain(collected(engine.read(opened.snapshot, columns, predicate)))


def collected(result: Any) -> pa.Table:
    """All rows of a ``pa.RecordBatchReader`` or of Spark's ``DataFrame``."""
    if isinstance(result, pa.RecordBatchReader):
        return result.read_all()
    # DataFrame.toArrow casts the collected rows, which fails for a struct (a variant is a struct) below a null.
    batches = result._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else result.toArrow()


def files_delta_rs(uri: str | Path, version: int | None = None) -> set[Path]:
    """The live data files of a version as delta-rs lists them, as absolute paths."""
    table = DeltaTable(str(uri), version=version)
    # delta-rs percent-encodes the table's location, but not the file's path below it.
    shown = table.table_uri.removeprefix("file://")
    return {Path(uri).resolve() / file.removeprefix("file://").removeprefix(shown) for file in table.file_uris()}


def parquet_files(uri: str | Path) -> set[Path]:
    """Every Parquet file below a local table's folder except those of the log, as absolute paths."""
    root = Path(uri).resolve()
    return {path for path in root.rglob("*.parquet") if "_delta_log" not in path.relative_to(root).parts}


def read_by_all(root: Path) -> pa.Table:
    """The rows on which this library and DuckDB agree, and delta-rs if it can read the table; plain and sorted."""
    own = plain(lakehouse_lib.DeltaTable(root).to_pyarrow_table())
    assert read_duckdb(root).equals(own)
    if DeltaTable(root).protocol().min_reader_version < 3:
        assert read_delta_rs(root).equals(own)
    return own


def plain(table: pa.Table) -> pa.Table:
    """The same rows in the plain form, sorted by all columns."""
    columns = [_decoded(column).cast(_plain_type(column.type)).combine_chunks() for column in table.columns]
    columns = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    result = pa.table(columns, names=table.column_names)
    if result.num_rows < 2:
        return result
    keys = [_sort_key(column) for column in result.columns]
    names = [f"k{index}" for index in range(len(keys))]
    order = pc.sort_indices(pa.table(keys, names=names), sort_keys=[(name, "ascending") for name in names])
    return pa.table([column.take(order).combine_chunks() for column in result.columns], names=table.column_names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _plain_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz is not None else None)
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    return kind


def _sort_key(column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if pa.types.is_nested(kind):
        # Arrow cannot sort nested values, so their text is sorted; equal tables get the same order.
        return pa.array(np.array([repr(value) for value in column.to_pylist()], dtype=object), type=pa.string())
    if pa.types.is_boolean(kind):
        return pc.cast(column, pa.int8())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.int8())
    return column
