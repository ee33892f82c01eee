"""The log objects that make up a version, with a stale, missing, damaged or wrong checkpoint hint."""

import json
import time

import pytest

from lakehouse_lib.errors import LogCorruptedError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names, latest_version, segment
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.last_checkpoint_hint import LastCheckpoint, read_hint, write_hint
from lakehouse_lib.log.segment import load_segment, oldest_version
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.log_builder import add, put
from tests.slow_cases import some_slow
from tests.table_builder import append, create, paths_of


@pytest.fixture
def table(tmp_path):
    """Versions 0 to 12, with one new file each from version 1 on, and a checkpoint at 10."""
    snapshot = create(tmp_path / "t")
    for version in range(1, 13):
        snapshot = append(snapshot, f"f{version}")
    return snapshot


def test_a_checkpoint_is_written_every_ten_commits_and_used(table):
    assert read_hint(table.store) == 10
    loaded = load_segment(table.store)
    assert (loaded.version, loaded.checkpoint.version, [c.version for c in loaded.deltas]) == (12, 10, [11, 12])
    assert paths_of(load_snapshot(table.store)) == sorted(f"f{v}" for v in range(1, 13))


@pytest.mark.parametrize(
    "hint",
    [b"", b"{", b"[]", b'{"version": "10"}', b'{"version": 7}', b'{"version": 999}', b'{"version": -1}', b"\xff", None],
)
def test_a_wrong_hint_changes_nothing(table, hint):
    if hint is None:
        table.store.delete_many([file_names.LAST_CHECKPOINT])
    else:
        table.store.put(file_names.LAST_CHECKPOINT, hint)
    assert paths_of(load_snapshot(table.store)) == paths_of(table)
    assert latest_version(table.store) == 12


def test_the_hint_never_moves_backwards(table):
    write_hint(table.store, LastCheckpoint(5, 1, 1, 1))
    assert read_hint(table.store) == 10
    write_hint(table.store, LastCheckpoint(12, 1, 1, 1))
    assert read_hint(table.store) == 12


@pytest.mark.parametrize("version", some_slow([0, 3, 10, 12, 1, 2, 4, 5, 6, 7, 8, 9, 11], 4))
def test_every_version_reads_as_it_was(table, version):
    assert paths_of(load_snapshot(table.store, version)) == sorted(f"f{v}" for v in range(1, version + 1))


def test_an_unreadable_checkpoint_falls_back_to_the_commits(table):
    table.store.put(file_names.checkpoint(10), b"PAR1 torn")
    assert paths_of(load_snapshot(table.store)) == paths_of(table)
    table.store.delete_many([file_names.commit(v) for v in range(5)])
    with pytest.raises(LogCorruptedError, match=r"checkpoint.*cannot be read.*version 10"):
        load_snapshot(table.store)


def test_a_gap_is_an_error_after_a_wait(table, monkeypatch):
    monkeypatch.setattr(segment, "LISTING_WAITS", (0.01, 0.01))
    content = table.store.read(file_names.commit(11))
    table.store.delete_many([file_names.commit(11)])
    with pytest.raises(LogCorruptedError, match=r"commit 11 is missing, but commit 12 exists.*Restore"):
        load_snapshot(table.store)
    assert paths_of(load_snapshot(table.store, 10)) == sorted(f"f{v}" for v in range(1, 11))

    # A listing that lacks a new object for a while.
    late = time.monotonic() + 0.05
    monkeypatch.setattr(segment, "LISTING_WAITS", (0.02,) * 20)
    real = LocalStore.list_from

    def eventually(self, folder, start=""):
        if time.monotonic() > late:
            table.store.put(file_names.commit(11), content)
        return real(self, folder, start)

    monkeypatch.setattr(LocalStore, "list_from", eventually)
    assert load_snapshot(table.store).version == 12


def test_versions_that_are_missing(table):
    with pytest.raises(VersionNotFoundError, match=r"version 13 does not exist; the latest is 12"):
        load_snapshot(table.store, 13)
    with pytest.raises(VersionNotFoundError, match="-1"):
        load_snapshot(table.store, -1)
    table.store.delete_many([file_names.commit(v) for v in range(10)])
    assert oldest_version(table.store) == 10
    with pytest.raises(VersionNotFoundError, match="version 3 was cleaned up; the next version that can be read is 10"):
        load_snapshot(table.store, 3)
    assert load_snapshot(table.store).version == 12


def test_a_late_checkpoint_of_a_cleaned_up_version_is_not_a_corrupt_log(table, monkeypatch):
    monkeypatch.setattr(segment, "LISTING_WAITS", ())
    write_checkpoint(table.store, 3, load_snapshot(table.store, 3).state, tombstones_since=0)
    table.store.delete_many([file_names.commit(v) for v in range(9)])
    assert load_snapshot(table.store, 3).version == 3
    for version in (4, 9):
        with pytest.raises(
            VersionNotFoundError, match=rf"DELTA_VERSION_NOT_FOUND.*version {version}\)\. Give a version from 10"
        ):
            load_snapshot(table.store, version)
    # Older commits exist, so no cleanup has deleted it.
    table.store.delete_many([file_names.checkpoint(3)])
    table.store.put(file_names.commit(0), b"{}")
    with pytest.raises(LogCorruptedError, match=r"DELTA_LOG_GAP.*version 1"):
        load_snapshot(table.store, 4)


def test_a_table_without_its_first_commit_is_a_gap(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "LISTING_WAITS", ())
    put(tmp_path, 0)
    store = put(tmp_path, 1, add("a"))
    store.delete_many([file_names.commit(0)])
    with pytest.raises(LogCorruptedError, match="commit 0 is missing"):
        load_snapshot(store)


def test_a_missing_table_and_a_folder_without_a_log_are_different_errors(tmp_path):
    with pytest.raises(TableNotFoundError, match=r"the location has no table.*Check the path"):
        load_snapshot(LocalStore(str(tmp_path / "none")))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.parquet").write_bytes(b"x")
    with pytest.raises(TableNotFoundError, match="the folder has no Delta log"):
        load_snapshot(LocalStore(str(tmp_path / "plain")))


def test_incomplete_multi_part_checkpoints_are_skipped(table):
    store = table.store
    store.put(f"{file_names.LOG}/{11:020d}.checkpoint.{1:010d}.{2:010d}.parquet", b"only one of two")
    assert load_segment(store).checkpoint.version == 10
    # A complete checkpoint is read: both parts are the classic checkpoint cut in two.
    import io

    import pyarrow.parquet as pq

    rows = pq.ParquetFile(io.BytesIO(store.read(file_names.checkpoint(10)))).read()
    for part, piece in enumerate((rows.slice(0, 5), rows.slice(5)), start=1):
        out = io.BytesIO()
        pq.write_table(piece, out)
        store.put(f"{file_names.LOG}/{10:020d}.checkpoint.{part:010d}.{2:010d}.parquet", out.getvalue())
    store.delete_many([file_names.checkpoint(10)])
    assert len(load_segment(store).checkpoint.paths) == 2
    assert paths_of(load_snapshot(store)) == paths_of(table)


def test_foreign_names_in_the_log_are_ignored(table):
    for name in (".tmp", "00000000000000000099.crc", "00000000000000000013.json.tmp", "x.json", "_delta_index"):
        table.store.put(f"{file_names.LOG}/{name}", b"{}")
    assert load_snapshot(table.store).version == 12
    assert json.loads(table.store.read(file_names.LAST_CHECKPOINT))["version"] == 10


def test_names_beyond_the_largest_version_are_ignored(table):
    latest = load_snapshot(table.store).version
    beyond = 10**20 - 1
    for name in (file_names.commit(beyond), file_names.checkpoint(beyond), file_names.compaction(latest - 1, beyond)):
        table.store.put(name, b"")
        assert file_names.parse(name) is None
    assert file_names.checksum_version(file_names.checksum(beyond)) is None
    assert file_names.parse(file_names.commit(2**63 - 1)) is not None
    assert load_snapshot(table.store).version == latest


def test_a_snapshot_whose_next_commits_are_cleaned_up_moves_on_by_the_checkpoint(table):
    old = load_snapshot(table.store, 2)
    table.store.delete_many([file_names.commit(v) for v in range(11)])
    assert old.update().version == 12
    assert paths_of(old.update()) == paths_of(table)
    table.store.delete_many([file_names.commit(v) for v in range(11, 13)])
    assert old.update().version == 10
    with pytest.raises(TableNotFoundError, match="the location has another table now"):
        table.update()  # now the log ends before it
