"""Tables for tests: rows of few columns, data files, files tables, small transactions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore, ObjectStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction, Outcome
from tests.log_builder import SCHEMA


def longs(**columns: Iterable[int | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def write_files(
    root: Path, rows: pa.Table, files: int, *, writer: Callable[..., object] = write_deltalake, **options: Any
) -> None:
    """Append the rows in ``files`` commits of the same size, with one file each, or one in each partition.

    Args:
        writer: ``write_deltalake`` of this library or of delta-rs.
        options: options of the writer.
    """
    step = math.ceil(len(rows) / files)
    for start in range(0, len(rows), step):
        writer(root, rows.slice(start, step), mode="append", **options)


def paths_by(root: Path, column: str) -> list[str]:
    """The paths of a table's files, ordered by each file's lowest value in a column."""
    files = DeltaTable(root).snapshot.files
    lowest = [json.loads(stats)["minValues"][column] for stats in files["stats"].to_pylist()]
    return [path for _, path in sorted(zip(lowest, files["path"].to_pylist(), strict=True))]


def files(*paths: str, data_change: bool = True, stats: str | None = None) -> pa.Table:
    """A files table of files without rows, of 10 bytes each."""
    rows = [
        {
            "path": path,
            "partitionValues": [],
            "size": 10,
            "modificationTime": 1,
            "dataChange": data_change,
            "stats": stats,
        }
        for path in paths
    ]
    return pa.Table.from_pylist(rows, schema=FILE_SCHEMA)


def files_with(stats: Sequence[str | None], partition_values: Sequence[Any] | None = None) -> pa.Table:
    """A files table with these statistics, partition values (dicts or pairs) and paths; all other values are null."""
    columns = {field.name: pa.nulls(len(stats), field.type) for field in FILE_SCHEMA}
    columns["path"] = pa.array([f"{number}.parquet" for number in range(len(stats))])
    columns["stats"] = pa.array(stats, pa.string())
    if partition_values is not None:
        pairs = [list(values.items()) if isinstance(values, dict) else values for values in partition_values]
        columns["partitionValues"] = pa.array(pairs, FILE_SCHEMA.field("partitionValues").type)
    return pa.Table.from_pydict(columns, schema=FILE_SCHEMA)


def create(root: Path, configuration: dict[str, str] | None = None, protocol: Protocol | None = None) -> Snapshot:
    """Create an empty table with one column ``id``, by a transaction."""
    store = LocalStore(str(root), fsync=False)
    transaction = OptimisticTransaction(None, store, "CREATE TABLE", {})
    transaction.set_protocol(protocol or Protocol(1, 2))
    transaction.set_metadata(Metadata("t", SCHEMA, configuration=configuration or {}))
    assert isinstance(transaction.commit(), Committed)
    return load_snapshot(store)


def begin(
    snapshot: Snapshot, operation: str = "WRITE", *, adds: Sequence[str] = (), store: ObjectStore | None = None
) -> OptimisticTransaction:
    """A transaction that adds these files; ``store`` is the snapshot's by default."""
    transaction = OptimisticTransaction(snapshot, store or snapshot.store, operation, {})
    if adds:
        transaction.add(files(*adds))
    return transaction


def commit(snapshot: Snapshot, store: ObjectStore | None = None, path: str = "mine") -> Outcome:
    """The outcome of a commit that adds one file."""
    return begin(snapshot, adds=[path], store=store).commit()


def append(snapshot: Snapshot, *paths: str) -> Snapshot:
    transaction = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {"mode": "Append"})
    transaction.add(files(*paths))
    outcome = transaction.commit()
    assert isinstance(outcome, Committed)
    return load_snapshot(snapshot.store, outcome.version)


def paths_of(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.files["path"].to_pylist())
