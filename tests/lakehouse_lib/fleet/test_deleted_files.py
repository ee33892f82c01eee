"""The record of the files that vacuums have deleted, read by DuckDB and delta-rs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa

from lakehouse_lib import write_deltalake
from lakehouse_lib.fleet.deleted_files import DeletedFilesRecord
from lakehouse_lib.operations.upkeep.unneeded_files import deletion
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store


def test_each_deleted_file_is_recorded(tmp_path: Path) -> None:
    record = DeletedFilesRecord(str(tmp_path / "records"))
    expected = set()
    for name in ("orders", "items"):
        root = tmp_path / name
        write_deltalake(root, pa.table({"p": [1, 2, 3], "id": [1, 2, 3]}), partition_by="p")
        expected |= {(name, str(path.relative_to(root)), path.stat().st_size) for path in root.rglob("*.parquet")}
        write_deltalake(root, pa.table({"p": [1], "id": [1]}), mode="overwrite")
        snapshot = load_snapshot(open_store(str(root)))
        later = datetime.now(UTC) + timedelta(days=8)
        vacuum(snapshot, now=later, before_deletion=record.writer(name, "run-1"))
        assert len(list(root.rglob("*.parquet"))) == 4
        vacuum(snapshot, now=later, dry_run=False, before_deletion=record.writer(name, "run-1"))
    rows = deltalake.DeltaTable(tmp_path / "records" / "deleted_files").to_pyarrow_table().to_pylist()
    assert {(row["table"], row["path"], row["size"]) for row in rows} == expected
    assert {row["run"] for row in rows} == {"run-1"}
    assert all(timedelta() <= row["deleted_at"] - row["modified_at"] < timedelta(minutes=5) for row in rows)


def test_a_file_is_recorded_before_it_is_deleted(tmp_path: Path) -> None:
    """Before, the record of a killed vacuum lacked up to 100,000 files that it had deleted."""
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    (tmp_path / "old.parquet").write_bytes(b"x")
    exists: list[bool] = []
    later = datetime.now(UTC) + timedelta(days=8)
    snapshot = load_snapshot(open_store(str(tmp_path)))
    vacuum(
        snapshot,
        now=later,
        dry_run=False,
        before_deletion=lambda batch: exists.extend((tmp_path / path).exists() for path in batch["path"].to_pylist()),
    )
    assert exists == [True]
    assert not (tmp_path / "old.parquet").exists()


def test_many_files_are_recorded_in_batches(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.setattr(deletion, "DELETED_AT_ONCE", 2)  # type: ignore[attr-defined]
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    for number in range(5):
        (tmp_path / f"{number}.parquet").write_bytes(b"x" * number)
    batches: list[pa.Table] = []
    later = datetime.now(UTC) + timedelta(days=8)
    vacuum(load_snapshot(open_store(str(tmp_path))), now=later, dry_run=False, before_deletion=batches.append)
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert pa.concat_tables(batches)["size"].to_pylist() == list(range(5))
