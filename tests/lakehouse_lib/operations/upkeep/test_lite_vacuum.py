"""A vacuum without a listing takes the removed files and their sizes from the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.arrow.values import strings
from lakehouse_lib.fleet.deleted_files import DeletedFilesRecord
from lakehouse_lib.operations.results import VacuumResult
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.operations.upkeep.unneeded_files.plan import FileNeeds
from lakehouse_lib.operations.upkeep.unneeded_files.removed_objects import unlogged_paths
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
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


def lite(store: FaultStore, now: datetime | None = LATER, **how: object) -> VacuumResult:
    return vacuum(load_snapshot(store), full=False, now=now, dry_run=False, **how)  # type: ignore[arg-type]


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
    expected = removed(table)
    DeltaTable(table).release("first")
    assert {table / path for path in lite(FaultStore(table)).files} == expected != set()
    assert lite(FaultStore(table)).files == ()


def test_files_removed_after_the_last_vacuum_are_not_looked_up_while_there_is_a_pin(table: Path) -> None:
    DeltaTable(table).pin("first", 0)
    for version in (1, 2):
        edit(table, version, lambda action: action.get("remove", {}).update(deletionTimestamp=1))
    lite(FaultStore(table), now=None)
    write_deltalake(table, longs(id=[3]), mode="overwrite")
    expected = removed(table) - {table / path for path in DeltaTable(table, 0).file_uris()}
    looked_up = list[str]()
    result = lite(FaultStore(table, before={"head": looked_up.append}))
    assert {table / path for path in result.files} == expected != set()
    assert not expected & {table / path for path in looked_up}


def test_only_existing_files_are_counted_if_versions_are_kept(table: Path) -> None:
    first, second = (lite(FaultStore(table), keep_versions=[1]) for _ in range(2))
    assert (len(first.files), second.files) == (1, ())
    assert DeltaTable(table, 1).to_pyarrow_table()["id"].to_pylist() == [1]


def test_a_copied_log_with_old_tombstones_reports_each_file_once(table: Path) -> None:
    """The commit files are younger than the retention, so the next vacuum reads them again."""
    for version in (1, 2):
        edit(table, version, lambda action: action.get("remove", {}).update(deletionTimestamp=1))
    expected = removed(table)
    assert {table / path for path in lite(FaultStore(table), now=None).files} == expected
    result = lite(FaultStore(table), now=None)
    assert (result.files, result.version) == ((), None)


def test_a_tombstone_that_is_younger_than_its_commit_is_not_forgotten(table: Path) -> None:
    commit = table / "_delta_log" / f"{2:020}.json"
    clock_ahead = int((commit.stat().st_mtime + 60) * 1000)
    edit(table, 2, lambda action: action.get("remove", {}).update(deletionTimestamp=clock_ahead))
    between = datetime.fromtimestamp(commit.stat().st_mtime + 30, UTC)
    first = lite(FaultStore(table), now=between + timedelta(days=7))
    assert len(first.files) == len(removed(table)) == 1
    lite(FaultStore(table))
    assert parquet_files(table) == files_delta_rs(table)


def test_the_files_of_a_pin_that_is_released_during_a_vacuum_are_deleted_by_the_next(table: Path) -> None:
    DeltaTable(table).pin("first", 1)
    releases = [lambda: DeltaTable(table).release("first")]

    def release(path: str) -> None:
        if path.endswith(f"{3:020}.json"):  # VACUUM START
            releases.pop()()

    assert len(lite(FaultStore(table, before={"put_if_absent": release})).files) == 1
    assert not releases
    assert len(lite(FaultStore(table)).files) == 1
    assert parquet_files(table) == files_delta_rs(table)


def test_a_partition_that_became_a_table_of_its_own_is_kept(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2, 3], "p": ["a", "b", "b"]}), partition_by=["p"])
    DeltaTable(tmp_path).delete("p = 'a' OR id = 2")
    deltalake.convert_to_deltalake(str(tmp_path / "p=a"))
    result = lite(FaultStore(tmp_path))
    assert [Path(path).parent.name for path in result.files] == ["p=b"]
    assert DeltaTable(tmp_path / "p=a").to_pyarrow_table()["id"].to_pylist() == [1]


def test_only_unneeded_files_that_are_not_in_the_log_are_looked_up(tmp_path: Path) -> None:
    needs = FileNeeds(
        store=LocalStore(str(tmp_path)),
        needed=strings(["needed"]),
        expired=strings(["logged", "vector", "needed", "/outside"]),
        change_files=strings(["change", "logged change"]),
        names=strings([]),
        cutoff=0,
        partition_columns=(),
    )
    logged = pa.table({"path": ["logged", "logged change"], "size": [1, 1]})
    assert unlogged_paths(needs, logged).to_pylist() == ["vector", "change"]


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
