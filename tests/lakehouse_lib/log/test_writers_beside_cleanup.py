"""Writers whose version a cleanup deletes before or while they commit."""

import time
from dataclasses import replace

from lakehouse_lib.features import protocol_for
from lakehouse_lib.log import file_names
from lakehouse_lib.log.retention.cleanup import clean_up
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction, Unknown
from tests.fault_store import FaultStore, each
from tests.log_histories import DAY, PastLog
from tests.table_builder import append, commit, create


def test_a_writer_whose_version_is_cleaned_up_commits_nothing(tmp_path):
    """The name of its next commit is free again, but no reader would ever read a commit there."""
    snapshot = old = append(create(tmp_path), "a")
    for number in range(12):
        snapshot = append(snapshot, f"b{number}")
    clean_up(snapshot.store, snapshot.metadata, snapshot.protocol, now=time.time_ns() // 1_000_000 + 40 * DAY)
    assert snapshot.store.head(file_names.commit(2)) is None
    outcome = commit(old)
    assert isinstance(outcome, Conflict)
    assert outcome.error.code == "DELTA_COMMIT_FAILED"
    assert snapshot.store.head(file_names.commit(2)) is None


def test_a_version_that_a_cleanup_frees_is_not_written_again(tmp_path):
    """Between a late writer's check of the log and its put, a cleanup deletes a version."""
    log = PastLog(tmp_path).commits(6)
    log.checkpoint(5, "classic")
    old = load_snapshot(log.store, 1)

    commits = [file_names.commit(version) for version in range(5)]
    store = FaultStore(log.store.root, before={"put_if_absent": lambda _: log.store.delete_many(commits)})
    assert commit(old, store, "late") == Committed(6, 1)
    assert "late" in load_snapshot(log.store).files["path"].to_pylist()


def test_a_version_that_is_cleaned_up_after_a_lost_race_is_unknown(tmp_path):
    log = PastLog(tmp_path, configuration={"delta.logRetentionDuration": "interval 10000 days"}).commits(6)
    log.checkpoint(5, "classic")
    old = load_snapshot(log.store, 1)

    commits = [file_names.commit(version) for version in range(5)]
    store = FaultStore(log.store.root, after={"put_if_absent": lambda _: log.store.delete_many(commits)})
    outcome = commit(old, store, "late")
    assert isinstance(outcome, Unknown)
    assert outcome.error.code == "DELTA_COMMIT_UNKNOWN"


def test_a_winning_commit_that_is_cleaned_up_before_its_time_is_read_is_a_conflict(tmp_path):
    """The commit that enables in-commit timestamps needs the time of the version before it."""
    snapshot = append(create(tmp_path), "a")
    winner = file_names.commit(snapshot.version + 1)

    def win():
        checkpoint(append(load_snapshot(snapshot.store), "b"))

    def clean_up_winner(path):
        if path == winner:
            snapshot.store.delete_many([path])

    store = FaultStore(str(tmp_path), before={"put_if_absent": each(win), "head": clean_up_winner})
    transaction = OptimisticTransaction(snapshot, store, "SET TBLPROPERTIES", {})
    enabled = {**snapshot.configuration, "delta.enableInCommitTimestamps": "true"}
    metadata = replace(snapshot.metadata, configuration=enabled)
    transaction.set_metadata(metadata)
    transaction.set_protocol(protocol_for(metadata, snapshot.protocol))
    outcome = transaction.commit()
    assert isinstance(outcome, Conflict)
    assert outcome.error.code == "DELTA_COMMIT_FAILED"
