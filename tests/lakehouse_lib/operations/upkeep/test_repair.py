"""repair(): its findings, its repairs, and that no row is lost."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import CommitFailedError, DeltaProtocolError, LogCorruptedError
from lakehouse_lib.log import file_names, segment
from lakehouse_lib.log.last_checkpoint_hint import read_hint
from lakehouse_lib.operations.upkeep import repair as module
from lakehouse_lib.operations.upkeep.repair import repair
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.log_builder import Log
from tests.log_histories import KINDS, PastLog, all_seen, at, clean
from tests.peers import read_delta_rs, read_duckdb
from tests.slow_cases import some_slow


def rows(start, count=3):
    return pa.table({"id": np.arange(start, start + count)})


def build(root):
    for number in range(12):
        write_deltalake(root, rows(3 * number), mode="append")


@pytest.fixture
def table(tmp_path, copy_of):
    """A table with versions 0 to 11 of three rows each, and a checkpoint at 10."""
    return DeltaTable(copy_of(build, tmp_path))


def ids(table):
    return sorted(DeltaTable(table.table_uri).to_pyarrow_table()["id"].to_pylist())


def objects(table):
    return sorted((meta.path, meta.size, meta.modified) for meta in table.store.walk())


def test_a_sound_table_needs_no_repair(table):
    before = objects(table)
    result = repair(table.snapshot)
    assert result.is_sound
    assert result.read_version == table.version()
    findings = {kind: getattr(result, kind) for kind in result.kinds()}
    assert table.repair() == {"dry_run": True, **findings, "version": None}
    assert table.repair(dry_run=False) == {"dry_run": False, **findings, "version": None}
    assert objects(table) == before


def test_missing_data_files_are_removed_from_the_log(table):
    files = table.files()["path"].to_pylist()
    table.store.delete_many(files[:2])
    before = objects(table)
    report = table.repair()
    assert report["dry_run"]
    assert sorted(report["files_removed"]) == sorted(files[:2])
    assert objects(table) == before
    assert table.version() == 11
    repaired = table.repair(dry_run=False)
    assert (repaired["dry_run"], repaired["version"], table.version()) == (False, 12, 12)
    assert sorted(repaired["files_removed"]) == sorted(files[:2])
    assert sorted(table.files()["path"].to_pylist()) == sorted(files[2:])
    assert len(ids(table)) == 30
    assert read_delta_rs(table.table_uri).equals(read_duckdb(table.table_uri))
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationMetrics"]["numRemovedFiles"]) == ("FSCK", "2")
    assert repair(table.snapshot).is_sound


def test_a_broken_link_is_a_missing_file(table, tmp_path):
    files = table.files()["path"].to_pylist()
    targets = [tmp_path.with_name(f"kept-{number}") for number in range(2)]
    for path, place in zip(files, targets, strict=False):
        file = Path(table.table_uri, path)
        file.rename(place)
        file.symlink_to(place)
    assert repair(table.snapshot).is_sound
    targets[0].unlink()
    report = table.repair(dry_run=False)
    assert (report["files_removed"], report["sizes_wrong"]) == (files[:1], {})
    assert len(ids(table)) == 33
    assert read_delta_rs(table.table_uri).equals(read_duckdb(table.table_uri))


def test_a_restored_file_and_the_version_before_bring_the_rows_back(table, tmp_path):
    """The steps of docs/log-upkeep.md."""
    before = ids(table)
    lost = tmp_path / table.files()["path"][0].as_py()
    content = lost.read_bytes()
    lost.unlink()
    repaired = table.repair(dry_run=False)["version"]
    assert len(ids(table)) == 33
    lost.write_bytes(content)
    write_deltalake(tmp_path, DeltaTable(tmp_path, version=repaired - 1), mode="overwrite")
    assert ids(table) == before
    assert read_delta_rs(table.table_uri).equals(read_duckdb(table.table_uri))


def test_repair_removes_the_files_that_delta_rs_removes(tmp_path):
    from deltalake import DeltaTable as DeltaRsTable

    for name in ("ours", "theirs"):
        write_deltalake(tmp_path / name, rows(0))
        write_deltalake(tmp_path / name, rows(3), mode="append")
        for path in DeltaTable(tmp_path / name, version=0).files()["path"].to_pylist():
            (tmp_path / name / path).unlink()
    delta_rs_report = DeltaRsTable(str(tmp_path / "theirs")).repair(dry_run=False)
    our_report = DeltaTable(tmp_path / "ours").repair(dry_run=False)
    assert set(delta_rs_report) <= set(our_report)
    assert our_report["dry_run"] == delta_rs_report["dry_run"]
    assert len(our_report["files_removed"]) == len(delta_rs_report["files_removed"]) == 1
    assert ids(DeltaTable(tmp_path / "ours")) == ids(DeltaTable(tmp_path / "theirs")) == [3, 4, 5]


def test_a_file_that_a_listing_lacks_is_checked_again(table, monkeypatch):
    """In some stores a listing shows a new object late."""
    original = LocalStore.walk
    hidden = table.files()["path"].to_pylist()[:3]
    monkeypatch.setattr(
        LocalStore, "walk", lambda self, folder="": (m for m in original(self, folder) if m.path not in hidden)
    )
    assert repair(table.snapshot).is_sound


def test_a_missing_file_that_another_writer_removed_is_a_conflict(table, monkeypatch):
    path = table.files()["path"].to_pylist()[0]
    table.store.delete_many([path])
    original = module.OptimisticTransaction.commit

    def other_first(self, properties=None):
        monkeypatch.undo()
        table.repair(dry_run=False)
        return original(self, properties)

    monkeypatch.setattr(module.OptimisticTransaction, "commit", other_first)
    with pytest.raises(CommitFailedError):
        DeltaTable(table.table_uri).repair(dry_run=False)
    assert len(ids(table)) == 33


def test_an_append_only_table_with_missing_files_is_not_repaired(tmp_path):
    write_deltalake(tmp_path, rows(0), configuration={"delta.appendOnly": "true"})
    table = DeltaTable(tmp_path)
    table.store.delete_many(table.files()["path"].to_pylist())
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text("torn")
    assert len(table.repair()["files_removed"]) == 1
    with pytest.raises(DeltaProtocolError, match="rows cannot be removed"):
        table.repair(dry_run=False)
    assert (tmp_path / "_delta_log" / "_last_checkpoint").read_text() == "torn"


def test_a_missing_deletion_vector_is_only_reported(tmp_path):
    log = Log(tmp_path)
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 36,
              "cardinality": 1}  # fmt: skip
    log.commit(log.add(log.file("a", [1, 2]), deletionVector=vector), log.add(log.file("b", [3])))
    table = DeltaTable(tmp_path)
    report = repair(table.snapshot)
    assert (report.vectors_missing, report.files_removed) == (["a"], [])
    assert not report.is_sound
    assert repair(table.snapshot, dry_run=False).version is None


def test_files_of_another_folder_are_checked_only_if_allowed(tmp_path):
    log = Log(tmp_path / "t")
    line = log.add(log.file("a", [1]))
    other = json.loads(json.dumps(line))
    other["add"]["path"] = str(tmp_path / "elsewhere" / "a")
    far = json.loads(json.dumps(line))
    far["add"]["path"] = "s3://bucket/a"
    log.commit(line, other, far)
    assert repair(load_snapshot(LocalStore(str(log.root)))).files_removed == []
    allowed = LocalStore(str(log.root), allowed_roots=[str(tmp_path / "elsewhere")])
    assert repair(load_snapshot(allowed)).files_removed == [other["add"]["path"]]


# Damage of the log.


@pytest.mark.parametrize("wrong", [{"numFiles": 99}, {"tableSizeBytes": 1}, {"metadata": None}])
def test_wrong_checksums_are_deleted(table, wrong):
    path = file_names.checksum(11)
    body = json.loads(table.store.read(path)) | wrong
    table.store.put(path, json.dumps(body).encode())
    assert list(repair(table.snapshot).checksums_wrong) == [path]
    assert list(table.repair(dry_run=False)["checksums_wrong"]) == [path]
    assert table.store.head(path) is None
    assert table.store.head(file_names.checksum(10)) is not None


@pytest.mark.parametrize(
    "hint", some_slow([b"", b'{"version": 99, "size": 1}', b"{", b'{"version": 7, "size": 1}', b"[]"], 2)
)
def test_a_hint_to_a_missing_checkpoint_is_deleted(table, hint):
    assert repair(table.snapshot).last_checkpoint is None
    table.store.put(file_names.LAST_CHECKPOINT, hint)
    assert repair(table.snapshot).last_checkpoint is not None
    table.repair(dry_run=False)
    assert table.store.head(file_names.LAST_CHECKPOINT) is None
    assert repair(table.snapshot).is_sound
    assert len(ids(table)) == 36
    for number in range(9):
        write_deltalake(table.table_uri, rows(100 + number), mode="append")
    assert read_hint(table.store) == 20


def test_a_hint_is_deleted_with_its_checkpoint(table):
    table.store.put(file_names.checkpoint(10), b"PAR1 torn")
    report = table.repair()
    assert list(report["checkpoints_unreadable"]) == [file_names.checkpoint(10)]
    assert report["last_checkpoint"] == "it points to version 10, which has no complete checkpoint"
    table.repair(dry_run=False)
    assert repair(load_snapshot(table.store)).is_sound
    assert len(read_delta_rs(table.table_uri)) == len(read_duckdb(table.table_uri)) == 36


@pytest.mark.parametrize("size", [0, 100, 10_000])
def test_a_data_file_of_another_size_is_only_reported(table, size):
    path = table.files()["path"].to_pylist()[3]
    logged_size = table.store.head(path).size
    table.store.put(path, b"x" * size)
    report = table.repair(dry_run=False)
    assert report["sizes_wrong"] == {path: f"it has {size:,} bytes; expected {logged_size:,} bytes by the log"}
    assert (report["files_removed"], report["version"]) == ([], None)
    assert table.store.head(path).size == size


@pytest.mark.parametrize(
    ("gone", "holes"), [([], []), ([5], ["5"]), ([2, 3, 4, 7], ["2 to 4", "7"]), ([0, 1], []), ([0, 1, 3], ["3"])]
)
def test_gaps_in_the_log_are_reported(table, gone, holes):
    table.store.delete_many([file_names.commit(version) for version in gone])
    assert table.repair(dry_run=False)["commits_missing"] == holes
    assert len(ids(table)) == 36


@pytest.mark.parametrize("length", [0, 40])
def test_truncated_commits_before_a_checkpoint_are_reported(table, length):
    truncated = {version: file_names.commit(version) for version in (3, 7)}
    for path in truncated.values():
        table.store.put(path, table.store.read(path)[:length])
    for dry_run in (True, False):
        report = table.repair(dry_run=dry_run)
        assert list(report["commits_torn"]) == list(truncated.values())
        assert all(path in why for path, why in report["commits_torn"].items())
        assert not repair(table.snapshot).is_sound
    assert len(ids(table)) == 36
    with pytest.raises(LogCorruptedError, match=rf"{truncated[3]}.*Restore the file"):
        DeltaTable(table.table_uri, version=4)


@pytest.mark.parametrize("damage", ["torn", "gone"])
def test_a_table_that_cannot_be_opened_has_a_report_by_an_older_version(table, damage, monkeypatch):
    monkeypatch.setattr(segment, "LISTING_WAITS", ())
    write_deltalake(table, rows(100), mode="append")
    path = file_names.commit(11)
    report_key = {"torn": "commits_torn", "gone": "commits_missing"}[damage]
    table.store.delete_many([path])
    if damage == "torn":
        table.store.put(path, b'{"commitInfo":{"timestamp":1')
    with pytest.raises(LogCorruptedError, match=r"read an older version, whose repair\(\) reports "):
        DeltaTable(table.table_uri)
    before = {meta.path for meta in table.store.walk()}
    older = DeltaTable(table.table_uri, version=10)
    report = older.repair()
    assert list(report[report_key]) == ([path] if damage == "torn" else ["11"])
    assert [name for name, value in report.items() if value] == ["dry_run", report_key]
    with pytest.raises(LogCorruptedError, match="Restore"):
        older.repair(dry_run=False)
    assert {meta.path for meta in table.store.walk()} == before


def test_temporary_files_older_than_a_day_are_deleted(table):
    path = f"{file_names.LOG}/.{3:020d}.json.{'0a' * 16}.tmp"
    table.store.put(path, b"{")
    assert repair(table.snapshot).is_sound
    later = datetime(2100, 1, 1, tzinfo=UTC)
    assert repair(table.snapshot, now=later).temporary == [path]
    repair(table.snapshot, dry_run=False, now=later)
    assert table.store.head(path) is None


@pytest.mark.parametrize("kind", some_slow([*KINDS], 1))
def test_an_unreadable_checkpoint_is_deleted_if_the_commits_exist(tmp_path, kind):
    log = PastLog(tmp_path).commits(12)
    for version in range(12):
        for path in log.live[version]:
            (tmp_path / path).write_bytes(b"0123456789")
    log.checkpoint(4, kind)
    before = all_seen(log.store, range(12))
    paths = log.checkpoint(8, kind)
    log.store.put(paths[0], b"PAR1 torn")
    report = repair(load_snapshot(log.store))
    assert paths[0] in report.checkpoints_unreadable
    assert not report.checkpoints_needed
    repair(load_snapshot(log.store), dry_run=False)
    assert log.store.head(paths[0]) is None
    assert all_seen(log.store, range(12)) == before
    assert repair(load_snapshot(log.store)).checkpoints_unreadable == {}


def test_an_unreadable_checkpoint_without_commits_is_kept(tmp_path):
    log = PastLog(tmp_path).commits(12)
    for path in log.live[11]:
        (tmp_path / path).write_bytes(b"0123456789")
    (path,) = log.checkpoint(4, "classic")
    log.checkpoint(8, "classic")
    log.store.delete_many([file_names.commit(version) for version in range(5)])
    data = bytearray((tmp_path / path).read_bytes())
    data[8:60] = bytes(52)
    (tmp_path / path).write_bytes(data)
    log.date(path, 4)
    report = repair(load_snapshot(log.store), dry_run=False)
    assert list(report.checkpoints_needed) == [path]
    assert log.store.head(path) is not None


def test_files_that_a_concurrent_cleanup_deletes_are_not_reported(tmp_path, monkeypatch):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(5, "parts")
    log.checkpoint(15, "classic")
    log.store.delete_many([file_names.commit(version) for version in range(5)])
    listed = [log.store.list_from]

    def list_and_lose(self, folder, start=""):
        listing = list(listed[0](folder, start))
        if folder == file_names.LOG and not start:
            # One page of the listing from before the cleanup, and one from after it.
            listing = [meta for meta in listing if meta.path != file_names.commit(8)]
            monkeypatch.undo()
            clean(log, 40)
        return iter(listing)

    snapshot = load_snapshot(log.store)
    monkeypatch.setattr(LocalStore, "list_from", list_and_lose)
    report = repair(snapshot)
    assert report.commits_missing == []
    assert report.checkpoints_needed == {}
    assert report.checkpoints_unreadable == {}


def test_incomplete_multi_part_checkpoints_are_deleted(tmp_path):
    log = PastLog(tmp_path).commits(6)
    for path in log.live[5]:
        (tmp_path / path).write_bytes(b"0123456789")
    first, second = log.checkpoint(3, "parts")
    log.store.delete_many([first])
    log.store.put(file_names.checkpoint(4), b"")
    log.date(file_names.checkpoint(4), 4)
    report = repair(load_snapshot(log.store), dry_run=False)
    assert report.checkpoints_unreadable == {second: "parts of it are missing", file_names.checkpoint(4): "it is empty"}
    assert log.store.head(second) is None


def test_young_parts_of_a_checkpoint_are_kept(tmp_path):
    log = PastLog(tmp_path).commits(6)
    for path in log.live[5]:
        (tmp_path / path).write_bytes(b"0123456789")
    first, second = log.checkpoint(3, "parts")
    log.store.delete_many([first])
    log.date(second, (time.time() - at(0) / 1000) / 86_400)
    assert repair(load_snapshot(log.store), dry_run=False).is_sound
    assert log.store.head(second) is not None


def test_all_kinds_of_damage_are_repaired_in_one_run(table):
    store = table.store
    missing = table.files()["path"].to_pylist()[0]
    temporary = f"{file_names.LOG}/.x.{'0a' * 16}.tmp"
    store.delete_many([missing])
    store.put(file_names.checksum(5), b"{")
    store.put(file_names.LAST_CHECKPOINT, b"torn")
    store.put(temporary, b"")
    store.put(file_names.checkpoint(10), b"torn")
    now = datetime.fromtimestamp(at(0) / 1000 + 4e9, UTC)
    report = repair(table.snapshot, dry_run=False, now=now)
    assert report.files_removed == [missing]
    assert report.version == 12
    assert repair(load_snapshot(store), now=now).is_sound
    assert len(ids(table)) == 33
