"""The files that vacuum leaves, compared with delta-rs, and its commits."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib import CommitProperties, Transaction
from lakehouse_lib import DeltaTable as OurTable
from lakehouse_lib import write_deltalake as write_ours
from lakehouse_lib.errors import InvalidArgumentError, RetentionError, StoreError, UnsupportedFeatureError
from lakehouse_lib.log.history import history
from lakehouse_lib.log.retention.last_vacuum import LastVacuum, read_last_vacuum
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, open_store
from tests.fault_store import FaultStore
from tests.log_builder import Action, edit, put
from tests.peers import files_delta_rs, parquet_files, read_delta_rs


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of delta-rs with three appends, a delete that rewrites a file, and a compaction, some time ago."""
    root = tmp_path / "orders"
    for start in (0, 10, 20):
        write_deltalake(root, pa.table({"id": list(range(start, start + 10))}), mode="append")
    DeltaTable(root).delete("id = 13")
    DeltaTable(root).optimize.compact()
    (root / "_ingest" / "orders").mkdir(parents=True)
    (root / "_ingest" / "orders" / "1.json").write_text("{}")
    (root / "leftover.parquet").write_bytes(b"PAR1")
    return root


def in_days(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def test_a_table_opened_through_a_link_keeps_files_with_absolute_paths(table: Path, tmp_path: Path) -> None:
    log = table / "_delta_log"
    for commit in log.glob("*.json"):
        commit.write_text(commit.read_text().replace('"path":"part', f'"path":"file://{table}/part'))
    (tmp_path / "link").symlink_to(table)
    before = {file for file in parquet_files(table) if file.name != "leftover.parquet"}
    vacuum(load_snapshot(LocalStore(str(tmp_path / "link"))), now=in_days(8), dry_run=False)
    live_names = {Path(path).name for path in load_snapshot(LocalStore(str(table))).files["path"].to_pylist()}
    assert {file for file in before if file.name in live_names} <= parquet_files(table)


def test_a_name_that_is_not_utf8_is_refused(table: Path) -> None:
    Path(os.fsdecode(os.fsencode(table) + b"/\xff.parquet")).write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="not UTF-8"):
        vacuum(load_snapshot(open_store(table)), now=in_days(8))


def test_after_vacuum_the_folder_holds_what_delta_rs_lists(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    before = read_delta_rs(table)
    dry = vacuum(snapshot, now=in_days(8))
    assert {table / path for path in dry.files} == parquet_files(table) - files_delta_rs(table)
    assert (dry.version, dry.read_version, dry.metrics["numFilesToDelete"]) == (None, snapshot.version, 5)
    result = vacuum(snapshot, now=in_days(8), dry_run=False)
    assert result.files == dry.files
    deleted = {"numDeletedFiles": 5, "sizeOfDeletedFiles": dry.metrics["sizeOfDataToDelete"]}
    assert (result.version, result.metrics) == (snapshot.version + 2, {**dry.metrics, **deleted})
    assert parquet_files(table) == files_delta_rs(table)
    assert read_delta_rs(table) == before
    assert (table / "_ingest" / "orders" / "1.json").exists()
    assert vacuum(snapshot, now=in_days(8), dry_run=False).files == ()


def test_a_dry_run_and_a_run_without_deletions_commit_nothing(table: Path) -> None:
    files = parquet_files(table)
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, dry_run=False).files == ()
    assert vacuum(snapshot, now=in_days(8)).files
    assert parquet_files(table) == files
    assert load_snapshot(snapshot.store).version == snapshot.version


def test_the_history_has_the_vacuums(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    vacuum(snapshot, retention_hours=0, enforce_retention_duration=False, dry_run=False, now=in_days(1))
    end, start = history(snapshot.store, 2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationMetrics"]["numFilesToDelete"] == end["operationMetrics"]["numDeletedFiles"] == "5"
    assert start["operationParameters"]["specifiedRetentionMillis"] == "0"
    assert DeltaTable(table).history(1)[0]["operation"] == "VACUUM END"


def test_less_than_the_retention_of_the_table_needs_an_explicit_argument(table: Path) -> None:
    snapshot = load_snapshot(open_store(table))
    with pytest.raises(RetentionError) as refused:
        vacuum(snapshot, retention_hours=24)
    assert "24 hours" in str(refused.value)
    assert "168 hours" in str(refused.value)
    assert "enforce_retention_duration=False" in str(refused.value)
    assert len(vacuum(snapshot, retention_hours=24, enforce_retention_duration=False, now=in_days(1.1)).files) == 5
    assert vacuum(snapshot, retention_hours=24, enforce_retention_duration=False, now=in_days(0.9)).files == ()


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf"), 10**30, True, "7"])
def test_a_retention_that_is_not_valid_is_refused(table: Path, hours: float) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(f"retention_hours is {hours!r}; expected")):
        vacuum(load_snapshot(open_store(table)), retention_hours=hours, enforce_retention_duration=False)


def test_the_retention_of_the_table_is_the_default(table: Path) -> None:
    DeltaTable(table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 2 days"})
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, now=in_days(1.9)).files == ()
    assert len(vacuum(snapshot, now=in_days(2.1)).files) == 5
    with pytest.raises(RetentionError, match="48 hours"):
        vacuum(snapshot, retention_hours=47)


def test_a_longer_retention_keeps_files_whose_removes_were_dropped(table: Path) -> None:
    """Checkpoints of the table drop removes after two days; a vacuum of eight days keeps a file removed after five."""
    DeltaTable(table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 2 days"})
    days_ago = 3 * 86_400

    def age(action: Action) -> None:
        for kind, key in (("remove", "deletionTimestamp"), ("commitInfo", "timestamp")):
            if kind in action:
                action[kind][key] -= days_ago * 1000

    for version in range(DeltaTable(table).version() + 1):
        edit(table, version, age)
        commit = table / "_delta_log" / f"{version:020d}.json"
        os.utime(commit, (commit.stat().st_mtime - days_ago,) * 2)
    for file in parquet_files(table):
        os.utime(file, (file.stat().st_mtime - 30 * 86_400,) * 2)
    snapshot = load_snapshot(open_store(table))
    unknown = vacuum(snapshot, retention_hours=8 * 24).files
    assert unknown == ("leftover.parquet",)
    write_deltalake(table, pa.table({"id": [99]}), mode="append")
    checkpoint(load_snapshot(open_store(table)))
    snapshot = load_snapshot(open_store(table))
    assert not len(snapshot.tombstones)
    assert vacuum(snapshot, retention_hours=8 * 24).files == unknown
    assert len(vacuum(snapshot, retention_hours=2 * 24).files) == 5


@pytest.mark.parametrize("first", ["0 seconds", "30 days"])
@pytest.mark.parametrize("has_checksums", [True, False])
def test_a_raised_retention_protects_files_whose_tombstones_a_checkpoint_has_dropped(
    tmp_path: Path, first: str, has_checksums: bool
) -> None:
    for number in range(3):
        configuration = {"delta.deletedFileRetentionDuration": f"interval {first}"} if number == 0 else None
        write_ours(tmp_path, pa.table({"id": [number]}), mode="overwrite", configuration=configuration)
    for file in parquet_files(tmp_path):
        os.utime(file, (file.stat().st_mtime - 60 * 86_400,) * 2)
    table = OurTable(tmp_path)
    table.create_checkpoint()
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    if not has_checksums:
        for checksum in (tmp_path / "_delta_log").glob("*.crc"):
            checksum.unlink()
    paths: list[str] = []
    store = FaultStore(tmp_path, before={"read": paths.append})
    assert vacuum(load_snapshot(store), dry_run=False).files == ()
    assert (f"_delta_log/{1:020}.json" in paths) == (first == "0 seconds")
    assert OurTable(tmp_path, 0).to_pyarrow_table()["id"].to_pylist() == [0]


def test_an_old_snapshot_has_the_retention_of_the_latest_version(tmp_path: Path) -> None:
    for number, hours in enumerate((1, 720)):
        write_ours(tmp_path, pa.table({"id": [number]}), mode="overwrite")
        OurTable(tmp_path).alter.set_table_properties({"delta.deletedFileRetentionDuration": f"interval {hours} hours"})
    old = load_snapshot(open_store(tmp_path), 1)
    assert vacuum(old, now=in_days(29), dry_run=False).files == ()
    assert len(vacuum(old, now=in_days(31), dry_run=False).files) == 1


def test_an_application_transaction_is_in_the_first_commit(table: Path) -> None:
    properties = CommitProperties(app_transactions=[Transaction("job", 1)])
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, now=in_days(8), dry_run=False, commit_properties=properties).version == 6
    assert [entry["operation"] for entry in history(snapshot.store, 2)] == ["VACUUM END", "VACUUM START"]
    assert load_snapshot(snapshot.store).transactions["job"].version == 1


def test_an_old_snapshot_decides_by_the_latest_version(table: Path) -> None:
    old = load_snapshot(open_store(table), 1)
    vacuum(old, now=in_days(8), dry_run=False)
    assert parquet_files(table) == files_delta_rs(table)


def test_an_old_snapshot_decides_by_the_latest_version_after_a_cleanup(table: Path) -> None:
    old = load_snapshot(open_store(table), 1)
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    vacuum(old, now=in_days(8), dry_run=False)
    assert parquet_files(table) == files_delta_rs(table)


def test_a_commit_during_the_listing_keeps_its_files(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = load_snapshot(open_store(table))
    walk = LocalStore.walk

    def committed_meanwhile(store: LocalStore, prefix: str = ""):
        if not prefix:
            write_deltalake(table, pa.table({"id": [99]}), mode="append")
        return walk(store, prefix)

    monkeypatch.setattr(LocalStore, "walk", committed_meanwhile)
    vacuum(snapshot, retention_hours=0, enforce_retention_duration=False, dry_run=False, now=in_days(1))
    assert parquet_files(table) == files_delta_rs(table)
    assert 99 in read_delta_rs(table)["id"].to_pylist()


def test_an_unknown_writer_feature_is_refused_before_a_deletion(table: Path) -> None:
    files = parquet_files(table)
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["vacuumProtocolCheck"],
        "writerFeatures": ["vacuumProtocolCheck", "secretFiles"],
    }
    put(table, 5, {"protocol": protocol})
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="secretFiles"):
            vacuum(load_snapshot(open_store(table)), now=in_days(8), dry_run=dry_run)
    assert parquet_files(table) == files


def test_files_with_odd_partition_folders(tmp_path: Path) -> None:
    root = tmp_path / "t"
    values = ["a b", "a%20b", "ü/=", "_x", ".y", "é:z", None]
    for _ in range(2):
        write_deltalake(
            root,
            pa.table({"_p": pa.array(values, pa.string()), "id": list(range(7))}),
            mode="overwrite",
            partition_by=["_p"],
        )
    vacuum(load_snapshot(open_store(root)), now=in_days(8), dry_run=False)
    assert parquet_files(root) == files_delta_rs(root)
    assert len(parquet_files(root)) == 7


def test_an_interrupted_vacuum_can_be_run_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = load_snapshot(open_store(table))
    unlink, gone = os.unlink, list[str]()

    def fails_after_two(path: str, **options: object) -> None:
        if str(path).endswith(".parquet"):
            if len(gone) == 2:
                raise OSError(5, "Input/output error")
            gone.append(path)
        unlink(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", fails_after_two)
    with pytest.raises(StoreError, match="Input/output error"):
        vacuum(snapshot, now=in_days(8), dry_run=False)
    monkeypatch.undo()
    assert len(vacuum(snapshot, now=in_days(8), dry_run=False).files) == 3
    assert parquet_files(table) == files_delta_rs(table)


@pytest.mark.parametrize("full", [False, True])
def test_change_files_are_deleted_after_the_retention(tmp_path: Path, full: bool) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    write_deltalake(tmp_path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(tmp_path).update({"id": "id + 10"}, predicate="id = 1")
    (old,) = (tmp_path / "_change_data").iterdir()
    leftover = tmp_path / "_change_data" / "leftover.parquet"
    leftover.write_bytes(b"PAR1")
    ten_days_ago = (datetime.now(UTC) - timedelta(days=10)).timestamp()
    for path in (old, leftover, *(tmp_path / "_delta_log").glob("*.json")):
        os.utime(path, (ten_days_ago, ten_days_ago))
    DeltaTable(tmp_path).update({"id": "id + 10"}, predicate="id = 2")
    (young,) = set((tmp_path / "_change_data").iterdir()) - {old, leftover}
    vacuum(load_snapshot(open_store(str(tmp_path))), dry_run=False, full=full)
    assert set((tmp_path / "_change_data").iterdir()) == {young} | (set() if full else {leftover})


def test_a_linked_folder_is_neither_followed_nor_unlinked(table: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.parquet").write_bytes(b"PAR1")
    (table / "linked").symlink_to(outside)
    vacuum(load_snapshot(open_store(table)), now=in_days(8), dry_run=False)
    assert (table / "linked" / "a.parquet").exists()


def test_file_times_are_read_as_milliseconds(table: Path) -> None:
    moment = datetime.now(UTC)
    leftover = table / "leftover.parquet"
    os.utime(leftover, (moment.timestamp() - 3600, moment.timestamp() - 3600))
    snapshot = load_snapshot(open_store(table))
    assert vacuum(snapshot, retention_hours=0.9, enforce_retention_duration=False, now=moment).files == (
        "leftover.parquet",
    )
    assert vacuum(snapshot, retention_hours=1.1, enforce_retention_duration=False, now=moment).files == ()


def test_a_vacuum_that_is_not_full_lists_no_data(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = set(DeltaTable(table).vacuum(0, enforce_retention_duration=False, full=False))
    walk = LocalStore.walk

    def listed(store: LocalStore, folder: str = ""):
        assert folder
        return walk(store, folder)

    monkeypatch.setattr(LocalStore, "walk", listed)
    snapshot = load_snapshot(open_store(table))
    result = vacuum(snapshot, full=False, now=in_days(8), dry_run=False)
    assert set(result.files) == expected
    assert parquet_files(table) == files_delta_rs(table) | {table / "leftover.parquet"}
    assert vacuum(snapshot, full=False, now=in_days(8), dry_run=False).files == ()


def test_commits_cleaned_up_since_the_last_vacuum_need_a_full_one(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DeltaTable(table).delete("id < 5")
    checkpoint(load_snapshot(open_store(table)))
    removed = parquet_files(table) - files_delta_rs(table)
    for version in range(DeltaTable(table).version()):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    snapshot = load_snapshot(open_store(table))
    result = vacuum(snapshot, full=False, now=in_days(8), dry_run=False)
    assert "files that they have removed stay until a vacuum with full=True" in caplog.text
    assert {table / path for path in result.files} <= removed
    assert read_last_vacuum(open_store(table), snapshot.version) == LastVacuum()
    vacuum(snapshot, now=in_days(8), dry_run=False)
    assert parquet_files(table) == files_delta_rs(table)
    DeltaTable(table).delete("id < 9")
    caplog.clear()
    assert len(vacuum(snapshot, full=False, now=in_days(8), dry_run=False).files) >= 1
    assert not caplog.text
    assert parquet_files(table) == files_delta_rs(table)


def test_the_hint_of_an_earlier_table_in_the_folder_is_ignored(table: Path) -> None:
    hint = table / "_delta_log" / "_last_vacuum_info"
    hint.write_text('{"latestCommitVersionOutsideOfRetentionWindow":99}')
    checkpoint(load_snapshot(open_store(table)))
    result = vacuum(load_snapshot(open_store(table)), full=False, now=in_days(8), dry_run=False)
    assert len(result.files) == 4
    assert json.loads(hint.read_text())["latestCommitVersionOutsideOfRetentionWindow"] == result.read_version


@pytest.mark.parametrize("full", [False, True])
def test_files_of_a_released_pin_are_deleted_by_a_lite_vacuum(table: Path, full: bool) -> None:
    opened = OurTable(table)
    opened.pin("first", 0)
    checkpoint(load_snapshot(open_store(table)))
    vacuum(opened.snapshot, full=full, now=in_days(8), dry_run=False)
    assert len(OurTable(table, 0).to_pyarrow_table()) == 10
    opened.release("first")
    vacuum(opened.snapshot, full=False, now=in_days(8), dry_run=False)
    (table / "leftover.parquet").unlink(missing_ok=True)
    assert parquet_files(table) == files_delta_rs(table)
