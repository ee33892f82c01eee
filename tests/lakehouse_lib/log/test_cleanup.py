"""Expired log cleanup: the deleted objects by the protocol's rules, and the state that readers find at every moment."""

import logging
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import InvalidArgumentError, RetentionError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.history import history
from lakehouse_lib.log.last_checkpoint_hint import LastCheckpoint, write_hint
from lakehouse_lib.log.retention.cleanup import clean_up, cutoff, is_due
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from tests import checkpoint_files
from tests.fault_store import FaultStore
from tests.log_builder import METADATA, PROTOCOL, add, put
from tests.log_histories import KINDS, NOT_THERE, WEEK, PastLog, all_seen, at, clean, state_at, weekly
from tests.peers import read_delta_rs, read_duckdb
from tests.slow_cases import some_slow
from tests.table_builder import longs


def versions_of(log, kind):
    parsed = [file_names.parse(path) for path in log.listing()]
    return sorted({name.version for name in parsed if name is not None and name.kind == kind})


# Deleted objects.


def test_the_cutoff_is_a_midnight():
    moment = int(datetime(2026, 3, 31, 17, 30, tzinfo=UTC).timestamp() * 1000)
    assert cutoff(moment, timedelta(days=30)) == int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
    midnight = int(datetime(2026, 3, 31, tzinfo=UTC).timestamp() * 1000)
    assert cutoff(midnight, timedelta(0)) == midnight


def test_all_commits_before_the_checkpoint_at_the_cutoff_are_deleted(tmp_path):
    log = PastLog(tmp_path).commits(21)
    for version in (5, 10, 15):
        log.checkpoint(version, "classic")
    for version in range(21):
        log.checksum(version)
    # On day 20 the cutoff is the midnight of day 13. Version 12 was the newest then, and 10 is the checkpoint before
    # it.
    before = all_seen(log.store, range(21))
    gone = clean(log, 20)
    assert versions_of(log, "commit") == list(range(10, 21))
    assert versions_of(log, "classic") == [10, 15]
    assert [path for path in log.listing() if path.endswith(".crc")] == [file_names.checksum(v) for v in range(10, 21)]
    commits = {file_names.commit(version) for version in range(10)}
    checksums = {file_names.checksum(version) for version in range(10)}
    assert sorted(gone) == sorted({*commits, *checksums, file_names.checkpoint(5)})
    after = all_seen(log.store, range(21))
    assert {v: after[v] for v in range(10, 21)} == {v: before[v] for v in range(10, 21)}
    assert {after[v] for v in range(10)} == {NOT_THERE}
    assert clean(log, 20) == []


def test_a_commit_exactly_at_midnight_is_a_cutoff(tmp_path):
    log = PastLog(tmp_path).commits(3)
    log.checkpoint(1, "classic")
    log.date(file_names.commit(1), 1 - 1 / 24)  # 00:00 of that day
    assert file_names.commit(0) in clean(log, 8, dry_run=True)
    log.date(file_names.commit(1), 1 - 1 / 24 + 1 / 86_400)
    assert clean(log, 8, dry_run=True) == []


def test_without_a_checkpoint_nothing_is_deleted(tmp_path):
    log = PastLog(tmp_path).commits(21)
    assert clean(log, 1000) == []
    log.checkpoint(18, "classic")
    assert clean(log, 20) == []  # the checkpoint is younger than the cutoff
    assert len(log.listing()) == 22


def test_an_incomplete_or_empty_checkpoint_does_not_count(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.store.delete_many(log.checkpoint(10, "parts")[:1])
    log.store.put(file_names.checkpoint(9), b"")
    log.date(file_names.checkpoint(9), 9)
    assert clean(log, 20) == []


def test_a_checkpoint_that_cannot_be_read_is_no_base(tmp_path, caplog):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(5, "classic")
    path = tmp_path / log.checkpoint(10, "classic")[0]
    data = bytearray(path.read_bytes())
    data[8:60] = bytes(52)  # its footer is still valid
    path.write_bytes(data)
    log.date(file_names.checkpoint(10), 10)
    before = state_at(log.store, 20)
    with caplog.at_level(logging.WARNING):
        clean(log, 20)
    assert "cannot be read" in caplog.text
    assert versions_of(log, "commit") == list(range(5, 21))
    assert state_at(log.store, 20) == before


def test_a_log_with_a_gap_is_not_cleaned_up(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    log.store.delete_many([file_names.commit(15)])
    assert clean(log, 20) == []


def test_the_checkpoint_of_the_hint_is_not_deleted(tmp_path):
    log = PastLog(tmp_path).commits(21)
    for version in (5, 10):
        log.checkpoint(version, "classic")
    write_hint(log.store, LastCheckpoint(5, 1, 1, 1))
    clean(log, 20)
    assert versions_of(log, "classic") == [5, 10]
    assert versions_of(log, "commit") == list(range(5, 21))
    log.store.put(file_names.LAST_CHECKPOINT, b'{"version": 7, "size": 1}')  # this checkpoint does not exist
    clean(log, 20)
    assert versions_of(log, "commit") == list(range(10, 21))


def test_compactions_that_begin_at_the_base_or_before_are_deleted(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    for start, end in ((0, 4), (8, 12), (10, 14), (11, 15)):
        log.compaction(start, end)
    before = all_seen(log.store, range(21))
    clean(log, 20)
    assert [path for path in log.listing() if "compacted" in path] == [file_names.compaction(11, 15)]
    assert all_seen(log.store, range(10, 21)) == {v: before[v] for v in range(10, 21)}


def test_checksum_files_are_deleted_with_their_files(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    beside = [f"{file_names.LOG}/.{version:020d}{end}.crc" for version in (3, 12) for end in (".json", ".crc")]
    other = [
        f"{file_names.LOG}/{name}" for name in ("_commits", "notes.txt", "_last_checkpoint.bak", f"{3:020d}.json.tmp")
    ]
    for path in (*beside, *other):
        log.store.put(path, b"x")
        log.date(path, 0)
    clean(log, 20)
    assert {*beside, *other} & set(log.listing()) == {*beside[2:], *other}


def test_our_temporary_files_are_deleted_after_a_day(tmp_path):
    log = PastLog(tmp_path).commits(3)
    hexadecimal = "0123456789abcdef" * 2
    our_files = [
        f"{file_names.LOG}/.{3:020d}.json.{hexadecimal}.tmp",
        f"{file_names.SIDECARS}/.s.parquet.{hexadecimal}.tmp",
    ]
    others = [f"{file_names.LOG}/_commit_{hexadecimal}.json.tmp", f"{file_names.LOG}/.{3:020d}.json.tmp"]
    for path in (*our_files, *others):
        log.store.put(path, b"x")
        log.date(path, 2)
    assert clean(log, 3) == []
    assert sorted(clean(log, 4)) == sorted(our_files)
    assert set(others) <= set(log.listing())


def test_in_commit_timestamps_decide_where_they_exist(tmp_path):
    configuration = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "6",
        "delta.inCommitTimestampEnablementTimestamp": str(at(6)),
    }
    log = PastLog(tmp_path, configuration=configuration).commits(21)
    log.checkpoint(10, "classic")
    for version in range(6, 21):
        line = {"commitInfo": {"inCommitTimestamp": at(version)}}
        put(log.store, version, line, add(f"f{version}"))
        log.date(file_names.commit(version), 20)  # copied on day 20
    protocol = Protocol(1, 7, None, frozenset(["inCommitTimestamp"]))
    assert clean(log, 16, configuration=WEEK | configuration, protocol=protocol) == []
    clean(log, 20, configuration=WEEK | configuration, protocol=protocol)
    assert versions_of(log, "commit") == list(range(10, 21))


def test_modification_times_that_fall_back_are_moved_to_rise(tmp_path):
    # Version 4 was copied on day 30, so no later version counts as older, whatever its file's time is.
    log = PastLog(tmp_path).commits(12, days=[0, 1, 2, 3, 30, 5, 6, 7, 8, 9, 10, 11])
    log.checkpoint(3, "classic")
    log.checkpoint(8, "classic")
    clean(log, 20)
    assert versions_of(log, "commit") == list(range(3, 12))
    assert not is_due(log.store, weekly(), now=at(20))


# Sidecars.


def test_sidecars_without_a_checkpoint_are_deleted(tmp_path):
    log = PastLog(tmp_path).commits(21)
    paths = {version: log.checkpoint(version, "parquet") for version in (5, 10, 15)}
    orphan = checkpoint_files.put_sidecar(log.store, [add("x")])["sidecar"]["path"]
    young = checkpoint_files.put_sidecar(log.store, [add("y")])["sidecar"]["path"]
    log.date(f"{file_names.SIDECARS}/{orphan}", 18)
    log.date(f"{file_names.SIDECARS}/{young}", 19)
    gone = clean(log, 20)
    sidecars = {path for path in log.listing() if path.startswith(file_names.SIDECARS)}
    assert sidecars == {*paths[10][1:], *paths[15][1:], f"{file_names.SIDECARS}/{young}"}
    assert gone.index(paths[5][0]) < min(gone.index(path) for path in paths[5][1:])


def test_a_shared_sidecar_is_kept_while_a_checkpoint_refers_to_it(tmp_path):
    log = PastLog(tmp_path).commits(21)
    shared = checkpoint_files.put_sidecar(log.store, [add(f"f{v}") for v in range(5)])
    log.date(f"{file_names.SIDECARS}/{shared['sidecar']['path']}", 5)
    head = [{"protocol": PROTOCOL}, {"metaData": METADATA}]
    for version in (5, 10):
        log.date(checkpoint_files.put_v2(log.store, version, "json", [*head, shared]), version)
    clean(log, 20)
    assert f"{file_names.SIDECARS}/{shared['sidecar']['path']}" in log.listing()
    assert load_snapshot(log.store, 10).file_count == 5


def test_all_sidecars_are_kept_if_a_remaining_checkpoint_is_unreadable(tmp_path, caplog):
    log = PastLog(tmp_path).commits(21)
    for version in (5, 10):
        log.checkpoint(version, "json")
    log.store.put(log.checkpoint(15, "json")[0], b"{torn")
    sidecars = {path for path in log.listing() if path.startswith(file_names.SIDECARS)}
    with caplog.at_level(logging.WARNING):
        clean(log, 20)
    assert "no sidecars are deleted" in caplog.text
    assert sidecars <= set(log.listing())
    assert versions_of(log, "commit") == list(range(10, 21))


def test_sidecars_are_kept_on_the_day_of_the_oldest_checkpoint(tmp_path):
    """Another process may be writing a checkpoint that shares sidecars with the checkpoint that was the newest until
    then."""
    log = PastLog(tmp_path).commits(21)
    old = log.checkpoint(5, "parquet")
    for path in (new := log.checkpoint(10, "parquet")):
        log.date(path, 20)
    clean(log, 20)
    assert set(old[1:]) <= set(log.listing())
    clean(log, 22)
    assert not set(old) & set(log.listing())
    assert set(new) <= set(log.listing())


# Objects that are kept at any age.


@pytest.mark.parametrize("value", ["false", "FALSE", "no idea"])
def test_the_cleanup_can_be_disabled_by_a_property(tmp_path, value):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    configuration = WEEK | {"delta.enableExpiredLogCleanup": value}
    assert clean(log, 1000, configuration=configuration) == []
    assert not is_due(log.store, weekly(configuration), now=at(1000))
    assert clean(log, 1000, configuration=WEEK | {"delta.enableExpiredLogCleanup": "true"})


def test_a_concurrent_cleanup_deletes_nothing_more(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    gone = file_names.commit(0)

    configuration = WEEK | {"delta.enableInCommitTimestamps": "true"}
    before = set(log.listing())
    # The first commit, which has the in-commit timestamp, disappears between the listing and the read.
    store = FaultStore(
        tmp_path, after={"list_from": lambda folder: folder == file_names.LOG and log.store.delete_many([gone])}
    )
    timed = Protocol(1, 7, None, frozenset({"inCommitTimestamp"}))
    assert clean_up(store, weekly(configuration), timed, now=at(1000)) == []
    assert before - set(log.listing()) == {gone}


def test_the_default_log_retention_is_thirty_days(tmp_path):
    log = PastLog(tmp_path).commits(3)
    log.checkpoint(1, "classic")
    assert clean(log, 31, configuration={}) == []
    assert clean(log, 32, configuration={}) == [file_names.commit(0)]


def test_a_shorter_retention_than_that_of_files_is_refused(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    short = {"delta.logRetentionDuration": "interval 6 days"}
    with pytest.raises(RetentionError, match=r"6 days.*7 days.*enforce_retention_duration=False"):
        clean(log, 20, configuration=short)
    assert len(log.listing()) == 22
    assert clean(log, 20, configuration=short, enforce_retention_duration=False)


def test_a_retention_that_cannot_be_read_is_refused(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    with pytest.raises(InvalidArgumentError, match="logRetentionDuration"):
        clean(log, 20, configuration={"delta.logRetentionDuration": "a while"})


@pytest.mark.parametrize(("protected", "goes"), [("10", True), ("11", False), ("0", True)])
def test_protected_checkpoints_are_deleted_together_or_not_at_all(tmp_path, protected, goes):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    protocol = Protocol(1, 7, None, frozenset(["checkpointProtection"]))
    configuration = WEEK | {"delta.requireCheckpointProtectionBeforeVersion": protected}
    assert bool(clean(log, 20, configuration=configuration, protocol=protocol)) is goes


def test_a_protected_version_that_is_not_valid_is_refused(tmp_path):
    log = PastLog(tmp_path).commits(21)
    protocol = Protocol(1, 7, None, frozenset(["checkpointProtection"]))
    configuration = WEEK | {"delta.requireCheckpointProtectionBeforeVersion": "soon"}
    with pytest.raises(InvalidArgumentError, match="'soon' is not valid; expected a version"):
        clean(log, 20, configuration=configuration, protocol=protocol)


# Conditions for a cleanup.


def test_a_cleanup_is_due_when_a_commit_may_be_deleted(tmp_path):
    log = PastLog(tmp_path).commits(21)
    metadata = weekly()
    assert not is_due(log.store, metadata, now=at(20))
    log.checkpoint(10, "json")
    log.checkpoint(15, "json")
    assert not is_due(log.store, metadata, now=at(17))
    assert is_due(log.store, metadata, now=at(20))
    clean(log, 20)
    assert not is_due(log.store, metadata, now=at(20))
    assert not is_due(log.store, metadata, now=at(22))
    assert is_due(log.store, metadata, now=at(23))


def test_the_listing_stops_at_the_first_commit_that_is_kept(tmp_path):
    listed = []

    def noted(list_from, folder, start):
        for meta in list_from(folder, start):
            listed.append(meta.path)
            yield meta

    PastLog(tmp_path).commits(21)
    assert not is_due(FaultStore(tmp_path, instead={"list_from": noted}), weekly(), now=at(8))
    assert len(listed) == 2


def test_history_begins_where_the_log_does(tmp_path):
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(10, "classic")
    clean(log, 20)
    assert [entry["version"] for entry in history(log.store)] == list(range(20, 9, -1))


# Other writers.


@pytest.mark.parametrize("kind", some_slow([*KINDS], 2))
def test_other_readers_read_the_remaining_versions(tmp_path, kind):
    for version in range(16):
        pq.write_table(longs(id=[version]), tmp_path / f"f{version}")
    (size,) = {path.stat().st_size for path in tmp_path.glob("f*")}
    log = PastLog(tmp_path, size=size).commits(16)
    for version in (4, 8, 12):
        log.checkpoint(version, kind)
    assert clean(log, 18)
    for version in (8, 13, None):
        expected = sorted(int(path[1:]) for path in log.live[15 if version is None else version])
        assert read_delta_rs(tmp_path, version)["id"].to_pylist() == expected
        assert read_duckdb(tmp_path, version)["id"].to_pylist() == expected
