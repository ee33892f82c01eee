"""Small logs by hand, and tables by the transaction, for the tests of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.log import file_names
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, OptimisticTransaction

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA = {
    "id": "t",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": SCHEMA,
    "partitionColumns": [],
    "configuration": {},
}


def add(path: str, **more: object) -> dict[str, object]:
    body = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}
    return {"add": body | more}


def remove(path: str, **more: object) -> dict[str, object]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True} | more}


def put(root: Path, version: int, *actions: dict[str, object]) -> LocalStore:
    """One commit by hand; the first one brings protocol and metadata of its own."""
    store = LocalStore(str(root), fsync=False)
    lines = [{"protocol": PROTOCOL}, {"metaData": METADATA}, *actions] if version == 0 else actions
    store.put(file_names.commit(version), "\n".join(json.dumps(line) for line in lines).encode())
    return store


def files(*paths: str, data_change: bool = True, stats: str | None = None) -> pa.Table:
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


def create(root: Path, configuration: dict[str, str] | None = None, protocol: Protocol | None = None) -> Snapshot:
    store = LocalStore(str(root), fsync=False)
    transaction = OptimisticTransaction(None, store, "CREATE TABLE", {})
    transaction.set_protocol(protocol or Protocol(1, 2))
    transaction.set_metadata(Metadata("t", SCHEMA, configuration=configuration or {}))
    assert isinstance(transaction.commit(), Committed)
    return load_snapshot(store)


def append(snapshot: Snapshot, *paths: str) -> Snapshot:
    transaction = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {"mode": "Append"})
    transaction.add(files(*paths))
    outcome = transaction.commit()
    assert isinstance(outcome, Committed)
    return load_snapshot(snapshot.store, outcome.version)


def paths_of(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.files["path"].to_pylist())
