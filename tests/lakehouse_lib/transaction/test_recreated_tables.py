"""A table is deleted and another one created at its location: writers of the old table do not write to the new one."""

import os
import shutil
import time

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore, local
from lakehouse_lib.transaction import Committed
from tests.fault_store import FaultStore, each
from tests.table_builder import append, commit, create, paths_of

ANOTHER = "the location has another table now"


def objects(path):
    return {meta.path: meta.size for meta in LocalStore(str(path)).walk()}


def make(path, count, name):
    """A table of so many versions."""
    snapshot = create(path)
    for number in range(1, count):
        snapshot = append(snapshot, f"{name}{number}")
    return snapshot


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_commit_planned_on_the_old_table_is_refused(tmp_path, count):
    stale = make(tmp_path / "t", 2, "old")
    shutil.rmtree(tmp_path / "t")
    make(tmp_path / "t", count, "new")
    before = objects(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match=rf"{ANOTHER}.*{tmp_path}/t, version 1.*open it again"):
        commit(stale)
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        stale.update()
    assert objects(tmp_path / "t") == before


def test_a_checkpoint_of_the_old_table_is_refused(tmp_path):
    make(tmp_path / "t", 2, "old")
    held = DeltaTable(str(tmp_path / "t"))
    shutil.rmtree(tmp_path / "t")
    make(tmp_path / "t", 3, "new")
    before = objects(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        held.create_checkpoint()
    assert objects(tmp_path / "t") == before


def test_a_checkpoint_of_a_version_that_was_cleaned_up_is_refused(tmp_path):
    held = create(tmp_path / "t")
    checkpoint(append(append(held, "a"), "b"))
    (tmp_path / "t" / file_names.commit(0)).unlink()
    with pytest.raises(VersionNotFoundError, match=r"cleaned up.*version 0"):
        checkpoint(held)


def test_a_commit_to_an_immediately_recreated_table_is_refused(tmp_path, monkeypatch):
    # If the file system's times are coarse, only the content of the commit shows the difference.
    monkeypatch.setattr(local, "_tag", lambda status: "")
    moment = time.time_ns()
    stale, paths = None, []
    for _ in range(2):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        make(tmp_path / "t", 1, "")
        path = tmp_path / "t" / file_names.commit(0)
        os.utime(path, ns=(moment, moment))
        stale = stale or load_snapshot(LocalStore(str(tmp_path / "t"), fsync=False))
        paths.append((path.stat().st_size, path.stat().st_mtime_ns))
    assert paths[0] == paths[1]
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        commit(stale)
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        stale.update()


def recreate(root):
    shutil.rmtree(root)
    make(root, 4, "new")


def test_a_commit_to_a_table_recreated_during_a_lost_race_is_refused(tmp_path):
    stale = make(tmp_path / "t", 2, "old")
    store = FaultStore(stale.store.root, before={"put_if_absent": each(lambda: recreate(tmp_path / "t"))})
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        commit(stale, store)
    assert paths_of(load_snapshot(stale.store)) == ["new1", "new2", "new3"]


def test_a_commit_to_a_table_recreated_between_two_lost_races_is_refused(tmp_path):
    stale = make(tmp_path / "t", 1, "")
    puts = []
    races = each(lambda: append(stale, "theirs"), lambda: recreate(tmp_path / "t"))
    store = FaultStore(stale.store.root, before={"put_if_absent": races}, after={"put_if_absent": puts.append})
    with pytest.raises(TableNotFoundError, match=rf"{ANOTHER}.*version 1\)"):
        commit(stale, store)
    assert len(puts) == 2


def test_a_recreated_table_without_commits_is_recognized_by_its_id(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    DeltaTable(tmp_path / "t").create_checkpoint()
    (tmp_path / "t" / file_names.commit(0)).unlink()
    stale = load_snapshot(LocalStore(str(tmp_path / "t"), fsync=False))
    assert stale.update() is stale
    assert commit(stale) == Committed(1, 1)
    shutil.rmtree(tmp_path / "t")
    write_deltalake(tmp_path / "t", pa.table({"id": [2]}))
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        commit(stale)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    "verb",
    [
        lambda table: write_deltalake(table, pa.table({"id": [9]}), mode="append"),
        lambda table: write_deltalake(table, pa.table({"id": [9]}), mode="overwrite"),
        lambda table: table.delete("id = 1"),
        lambda table: table.optimize.compact(),
        lambda table: table.vacuum(0, dry_run=False, enforce_retention_duration=False),
        lambda table: table.cleanup_metadata(),
        lambda table: table.repair(dry_run=False),
        lambda table: table.create_checkpoint(),
        lambda table: table.update_incremental(),
    ],
    ids=["append", "overwrite", "delete", "compact", "vacuum", "cleanup", "repair", "checkpoint", "update"],
)
def test_an_open_table_does_not_change_the_recreated_table(tmp_path, verb, count):
    for number in range(2):
        write_deltalake(tmp_path / "t", pa.table({"id": [number]}), mode="append")
    table = DeltaTable(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    for number in range(count):
        write_deltalake(tmp_path / "t", pa.table({"id": [number + 10]}), mode="append")
    before = objects(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        verb(table)
    assert objects(tmp_path / "t") == before
    verb(DeltaTable(tmp_path / "t"))


def test_an_open_table_reports_that_it_was_deleted(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    table = DeltaTable(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match="DELTA_TABLE_NOT_FOUND"):
        table.update_incremental()


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_restored_copy_of_the_log_is_the_same_table(tmp_path, is_cached):
    snapshot = make(tmp_path / "t", 3, "f")
    held = DeltaTable(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "backup")
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "backup", tmp_path / "t", copy_function=shutil.copyfile)
    os.utime(tmp_path / "t" / file_names.commit(2), (1, 1))
    if not is_cached:
        CACHE.clear()
    held.update_incremental()
    assert held.version() == 2
    assert snapshot.update() is snapshot
    assert commit(snapshot) == Committed(3, 1)


def test_a_backup_with_other_last_commits_is_another_table(tmp_path):
    # The id is the same, but the commits of the old table are missing.
    first = make(tmp_path / "t", 2, "f")
    shutil.copytree(tmp_path / "t", tmp_path / "backup")
    stale = append(first, "old")
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "backup", tmp_path / "t")
    append(load_snapshot(first.store), "new")
    with pytest.raises(TableNotFoundError, match=rf"{ANOTHER}.*version 2"):
        commit(stale)


@pytest.mark.slow
def test_an_old_version_is_updated_by_a_checkpoint(tmp_path, monkeypatch):
    old = make(tmp_path / "t", 1, "")
    latest = old
    for number in range(101):
        latest = append(latest, f"f{number}")
    checkpoint(latest)
    read = []
    monkeypatch.setattr(
        LocalStore, "read", lambda self, path, read_it=LocalStore.read: read.append(path) or read_it(self, path)
    )
    CACHE.clear()
    assert paths_of(old.update()) == paths_of(latest)
    assert len(read) < 5


@pytest.mark.parametrize("count", [1, 2, 5])
def test_changes_of_the_new_table_are_not_returned_for_the_old_table(tmp_path, count):
    """A reader of the changes after its last version would miss the new table's first changes."""

    def fill(name, versions):
        for number in range(versions):
            rows = pa.table({"name": [f"{name}{number}"]})
            write_deltalake(tmp_path, rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

    fill("old", 2)
    held = DeltaTable(tmp_path)
    assert held.load_cdf(2, allow_out_of_range=True).read_all().num_rows == 0
    shutil.rmtree(tmp_path)
    fill("new", count)
    with pytest.raises(TableNotFoundError, match=ANOTHER):
        held.load_cdf(2, allow_out_of_range=True)
    assert DeltaTable(tmp_path).load_cdf(0).read_all()["name"].to_pylist() == [f"new{n}" for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_history_and_load_of_versions_of_the_new_table_are_refused(tmp_path, count):
    path = tmp_path / "t"
    make(path, 2, "old")
    held = DeltaTable(str(path))
    shutil.rmtree(path)
    make(path, count, "new")
    for act in (held.history, lambda: held.load_as_version(0), lambda: held.load_as_version("2100-01-01")):
        with pytest.raises(TableNotFoundError, match=ANOTHER):
            act()
    assert held.version() == 1
    shutil.rmtree(path)
    with pytest.raises(TableNotFoundError):
        held.history()


def test_history_of_a_version_that_was_cleaned_up_is_that_of_its_table(tmp_path):
    first = create(tmp_path / "t")
    held = DeltaTable(tmp_path / "t")
    checkpoint(append(append(first, "a"), "b"))
    for version in (0, 1):
        (tmp_path / "t" / file_names.commit(version)).unlink()
    assert [entry["version"] for entry in held.history()] == [2]
    held.load_as_version(2)
    assert held.version() == 2
