"""A vacuum without a listing takes the removed files and their sizes from the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.fleet.deleted_files import DeletedFilesRecord
from lakehouse_lib.operations.results import VacuumResult
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore
from tests.log_builder import Action, edit
from tests.peers import files_delta_rs, parquet_files
from tests.table_builder import longs

LATER = datetime.now(UTC) + timedelta(days=8)
CONFIGURATION = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with one live file and two removed files, some time ago."""
    root = tmp_path / "t"
    for number in range(3):
        write_deltalake(root, longs(id=[number]), mode="overwrite", configuration=CONFIGURATION)
    return root


def lite(store: FaultStore, **how: object) -> VacuumResult:
    return vacuum(load_snapshot(store), full=False, now=LATER, dry_run=False, **how)  # type: ignore[arg-type]


def removed(root: Path) -> set[Path]:
    return parquet_files(root) - files_delta_rs(root)


def test_sizes_are_read_from_the_log_and_no_file_is_looked_up(table: Path) -> None:
    expected = removed(table)
    size = sum(path.stat().st_size for path in expected)
    looked_up, batches = list[str](), list[pa.Table]()
    store = FaultStore(table, before={"head": looked_up.append})
    result = lite(store, before_deletion=batches.append)
    assert not [path for path in looked_up if path.endswith(".parquet")]
    assert {table / path for path in result.files} == expected
    assert (result.metrics["numListCalls"], result.metrics["sizeOfDeletedFiles"]) == (0, size)
    (batch,) = batches
    assert batch["modified"].to_pylist() == [None, None]
    assert parquet_files(table) == files_delta_rs(table)


def test_the_record_has_deleted_files_without_their_times(table: Path, tmp_path: Path) -> None:
    record = DeletedFilesRecord(str(tmp_path / "records"))
    result = lite(FaultStore(table), before_deletion=record.writer("t", "run"))
    rows = DeltaTable(tmp_path / "records" / "deleted_files").to_pyarrow_table()
    assert set(rows["path"].to_pylist()) == set(result.files)
    assert rows["modified_at"].null_count == len(result.files)


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_the_next_vacuum_deletes_only_what_was_removed_since(table: Path, has_checkpoint: bool) -> None:
    lite(FaultStore(table))
    if has_checkpoint:
        checkpoint(load_snapshot(FaultStore(table)))
    assert lite(FaultStore(table)).files == ()
    write_deltalake(table, longs(id=[3]), mode="overwrite")
    expected = removed(table)
    assert {table / path for path in lite(FaultStore(table)).files} == expected != set()
    assert parquet_files(table) == files_delta_rs(table)


def test_only_existing_files_are_counted_while_a_pin_keeps_older_versions(table: Path) -> None:
    DeltaTable(table).pin("first", 0)
    first, second = (lite(FaultStore(table)) for _ in range(2))
    assert (len(first.files), second.files) == (1, ())
    assert DeltaTable(table, 0).to_pyarrow_table()["id"].to_pylist() == [0]


def test_only_existing_files_are_counted_if_versions_are_kept(table: Path) -> None:
    first, second = (lite(FaultStore(table), keep_versions=[1]) for _ in range(2))
    assert (len(first.files), second.files) == (1, ())
    assert DeltaTable(table, 1).to_pyarrow_table()["id"].to_pylist() == [1]


def test_a_file_without_a_size_in_the_log_is_looked_up(table: Path) -> None:
    def without_size(action: Action) -> None:
        action.get("remove", {}).pop("size", None)

    sizes = {path: path.stat().st_size for path in removed(table)}
    edit(table, 1, without_size)
    (path,) = {table / action for action in DeltaTable(table, 0).file_uris()} & set(sizes)
    result = lite(FaultStore(table))
    assert result.metrics["sizeOfDeletedFiles"] == sum(sizes.values())
    assert not path.exists()


def test_a_removed_path_that_is_a_folder_is_kept(table: Path) -> None:
    folder = table / "folder"
    folder.mkdir()

    def rename(action: Action) -> None:
        if "remove" in action:
            action["remove"]["path"] = "folder"

    edit(table, 2, rename)
    lite(FaultStore(table))
    assert folder.is_dir()
    assert lite(FaultStore(table)).files == ()


def test_change_files_and_checksums_of_removed_files_are_deleted(table: Path) -> None:
    write_deltalake(table, longs(id=[4, 5]), mode="append")
    DeltaTable(table).delete("id = 4")
    changes = set((table / "_change_data").iterdir())
    checksums = {path.with_name(f".{path.name}.crc") for path in removed(table)}
    for checksum in checksums:
        checksum.write_bytes(b"crc")
    size = sum(path.stat().st_size for path in changes | checksums | removed(table))
    result = lite(FaultStore(table))
    assert {table / path for path in result.files} >= changes | checksums
    assert result.metrics["sizeOfDeletedFiles"] == size
    assert not [path for path in changes | checksums if path.exists()]
    assert parquet_files(table) == files_delta_rs(table)


def test_a_deletion_vector_is_deleted_when_no_version_needs_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vector, "_INLINE_BYTES", 0)
    DeltaTable(table).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    write_deltalake(table, longs(id=list(range(1000))), mode="overwrite")
    DeltaTable(table).delete("id = 4")
    (vector,) = table.glob("*.bin")
    lite(FaultStore(table))
    assert vector.exists()
    write_deltalake(table, longs(id=[11]), mode="overwrite")
    size = vector.stat().st_size + sum(path.stat().st_size for path in removed(table))
    result = lite(FaultStore(table))
    assert not vector.exists()
    assert result.metrics["sizeOfDeletedFiles"] == size


def test_a_removed_link_is_kept(table: Path, tmp_path: Path) -> None:
    path = sorted(removed(table))[0]
    path.rename(tmp_path / "elsewhere.parquet")
    path.symlink_to(tmp_path / "elsewhere.parquet")
    assert path.name not in lite(FaultStore(table)).files
    assert path.is_symlink()
    assert (tmp_path / "elsewhere.parquet").exists()
