"""Tables with row tracking, and each row's id computed from the file and the log, without our readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, ObjectStore
from lakehouse_lib.table.write import write_deltalake
from lakehouse_lib.transaction import Committed, OptimisticTransaction

TRACKED = Protocol(1, 7, None, frozenset({"appendOnly", "invariants", "domainMetadata", "rowTracking"}))
STABLE = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}


def rows(start: int) -> pa.Table:
    """Ten rows: ``id`` counts from a number, ``part`` says whether it is odd."""
    ids = list(range(start, start + 10))
    return pa.table({"id": pa.array(ids, pa.int64()), "part": pa.array([n % 2 for n in ids], pa.int64())})


def tracked_rows(
    root: Path, configuration: Mapping[str, str] | None = None, partition_by: list[str] | None = None
) -> ObjectStore:
    """A table with row tracking at version 4: three files of rows from 0, 10 and 20 on, all with row ids."""
    write_deltalake(root, rows(0), partition_by=partition_by)
    snapshot = load_snapshot(LocalStore(str(root)))
    transaction = OptimisticTransaction(snapshot, snapshot.store, "SET TBLPROPERTIES", {})
    transaction.read(None)
    transaction.remove(snapshot.files)
    transaction.set_protocol(TRACKED)
    transaction.set_metadata(replace(snapshot.metadata, configuration=dict(configuration or {})))
    assert isinstance(transaction.commit(), Committed)
    for start in (0, 10, 20):
        write_deltalake(root, rows(start), mode="append")
    return snapshot.store


def ids_on_disk(root: Path, key: str = "id") -> dict[int, tuple[int, int]]:
    """For each live row, by its key: its row id and row commit version (PROTOCOL.md, Reader Requirements)."""
    snapshot = load_snapshot(LocalStore(str(root)))
    names = [snapshot.configuration.get(name) for name in list(STABLE)[1:]]
    row_ids: dict[int, tuple[int, int]] = {}
    for file in snapshot.files.to_pylist():
        table = pq.ParquetFile(root / file["path"]).read()
        columns = [table[name].to_pylist() if name in table.column_names else [None] * len(table) for name in names]
        deleted = deletion_vector.load(snapshot.store, file["deletionVector"])
        for place, (value, row, version) in enumerate(zip(table[key].to_pylist(), *columns, strict=True)):
            if place not in deleted:
                assert value not in row_ids
                row_ids[value] = (
                    file["baseRowId"] + place if row is None else row,
                    file["defaultRowCommitVersion"] if version is None else version,
                )
    assert len({row for row, _ in row_ids.values()}) == len(row_ids)
    return row_ids
