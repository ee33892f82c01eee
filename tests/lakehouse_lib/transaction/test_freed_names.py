"""A commit under a name that a cleanup frees between the writer's check of the log and the put."""

import json
import time

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import CommitFailedError, CommitUnknownError, StoreError, UnsupportedFeatureError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import freed_names, optimistic_transaction

AT_ONCE = {"delta.logRetentionDuration": "interval 0 seconds", "delta.enableExpiredLogCleanup": "true"}


@pytest.fixture
def table(tmp_path):
    """A table of ten rows in two versions; the log's retention is zero."""
    write_deltalake(tmp_path, pa.table({"id": range(5)}), configuration=AT_ONCE)
    write_deltalake(tmp_path, pa.table({"id": range(5, 10)}), mode="append")
    return DeltaTable(tmp_path)


def by_delta_rs(root, versions=4):
    """Another writer's commits, its checkpoint, and its cleanup of everything before."""
    for number in range(versions):
        deltalake.write_deltalake(str(root), pa.table({"id": [100 + number]}), mode="append")
    other = deltalake.DeltaTable(str(root))
    other.create_checkpoint()
    other.cleanup_metadata()


def by_the_library(root, versions=4):
    """The same by this library, which rounds the time of a cleanup down to midnight."""
    for number in range(versions):
        write_deltalake(root, pa.table({"id": [100 + number]}), mode="append")
    other = DeltaTable(root)
    other.create_checkpoint()
    for version in range(other.version()):
        (root / file_names.commit(version)).unlink()


def meanwhile(monkeypatch, act):
    """Do something once between the check of the log and the put."""
    put = optimistic_transaction.put_commit
    done = []

    def late(store, version, data, txn_id):
        if not done:
            done.append(True)
            act()
        return put(store, version, data, txn_id)

    monkeypatch.setattr(optimistic_transaction, "put_commit", late)


def ids(root):
    return sorted(deltalake.DeltaTable(str(root)).to_pyarrow_table()["id"].to_pylist())


VERBS = {
    "append": lambda table: write_deltalake(table, pa.table({"id": [1000]}), mode="append"),
    "delete": lambda table: table.delete("id < 5"),
    "compact": lambda table: table.optimize.compact(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_below_a_checkpoint_of_others_is_not_reported_as_committed(table, tmp_path, monkeypatch, verb):
    def others():
        by_delta_rs(tmp_path)
        time.sleep(0.05)  # by the file system's clock, the put must come after the checkpoint
        assert not (tmp_path / file_names.commit(2)).exists()

    meanwhile(monkeypatch, others)
    before = set(tmp_path.glob("*.parquet"))
    with pytest.raises(CommitFailedError, match="DELTA_COMMIT_FAILED"):
        VERBS[verb](table)
    expected = [*range(10), *range(100, 104)]
    assert ids(tmp_path) == expected
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == expected
    assert not (tmp_path / file_names.commit(2)).exists()
    our_files = {path for path in set(tmp_path.glob("*.parquet")) - before if "-c000" in path.name}
    live = {path.rpartition("/")[2] for path in DeltaTable(tmp_path).file_uris()}
    assert {path.name for path in our_files} <= live
    # The same again on the current version.
    write_deltalake(tmp_path, pa.table({"id": [1000]}), mode="append")
    assert ids(tmp_path) == [*expected, 1000]


def test_a_commit_that_others_have_built_on_is_committed(table, tmp_path, monkeypatch):
    """The other writer's checkpoint has its rows."""
    check = optimistic_transaction.check_name

    def later(commit, looked, configuration, store):
        by_delta_rs(tmp_path)
        return check(commit, looked, configuration, store)

    monkeypatch.setattr(optimistic_transaction, "check_name", later)
    write_deltalake(table, pa.table({"id": [1000]}), mode="append")
    assert ids(tmp_path) == [*range(10), *range(100, 104), 1000]


def test_the_outcome_is_unknown_if_the_log_does_not_show_it(table, tmp_path, monkeypatch):
    """By the store's clock the checkpoint is not older than the commit, but it does not have the commit's rows."""
    meanwhile(monkeypatch, lambda: by_delta_rs(tmp_path))
    monkeypatch.setattr(freed_names, "_was_before", lambda checkpoints, commits, version: False, raising=True)
    with pytest.raises(CommitUnknownError, match="does not have the changes of this commit"):
        write_deltalake(table, pa.table({"id": [1000]}), mode="append")


@pytest.mark.parametrize(
    ("verb", "others"),
    [
        (VERBS["append"], by_delta_rs),
        (lambda table: table.alter.set_table_properties({"delta.checkpointInterval": "50"}), by_delta_rs),
        (lambda table: table.alter.add_feature("appendOnly", allow_protocol_versions_increase=True), by_delta_rs),
        (lambda table: table.alter.cluster_by("id"), by_the_library),  # delta-rs writes no clustered table
    ],
    ids=["files", "metadata", "protocol", "domain"],
)
def test_a_put_repeated_after_a_lost_answer_and_a_cleanup_is_committed(table, tmp_path, monkeypatch, verb, others):
    """The repeated put comes after the checkpoint that has the changes of the first put."""
    put = LocalStore.put_if_absent
    lost = []

    def put_once_without_answer(self, path, data):
        stored = put(self, path, data)
        if path == file_names.commit(2) and not lost:
            lost.append(path)
            others(tmp_path)
            time.sleep(0.05)
            raise StoreError("no answer", table=self.root)
        return stored

    monkeypatch.setattr(LocalStore, "put_if_absent", put_once_without_answer)
    verb(table)
    assert lost
    assert {*range(10), *range(100, 104)} <= set(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist())


def test_the_retention_of_a_winning_commit_counts(tmp_path, monkeypatch):
    """Another writer wins and shortens the retention; then the name of the next attempt is freed."""
    write_deltalake(tmp_path, pa.table({"id": range(10)}))
    put = optimistic_transaction.put_commit
    attempts = []

    def late(store, version, data, txn_id):
        attempts.append(version)
        if len(attempts) == 1:
            monkeypatch.setattr(optimistic_transaction, "put_commit", put)
            DeltaTable(tmp_path).alter.set_table_properties(AT_ONCE)
            monkeypatch.setattr(optimistic_transaction, "put_commit", late)
        else:
            by_delta_rs(tmp_path)
            time.sleep(0.05)
        return put(store, version, data, txn_id)

    table = DeltaTable(tmp_path)
    monkeypatch.setattr(optimistic_transaction, "put_commit", late)
    with pytest.raises(CommitFailedError, match="log cleanup removed commits"):
        write_deltalake(table, pa.table({"id": [1000]}), mode="append")
    assert attempts == [1, 2]
    assert ids(tmp_path) == [*range(10), *range(100, 104)]


def test_a_listing_error_after_the_put_deletes_no_file_of_the_commit(table, tmp_path, monkeypatch):
    """Another writer may have added a feature that this library cannot read."""
    check = optimistic_transaction.check_name

    def unreadable(*_):
        raise UnsupportedFeatureError("the table uses a new feature", table=str(tmp_path))

    def later(commit, looked, configuration, store):
        by_delta_rs(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(freed_names, "load_snapshot", unreadable)
            return check(commit, looked, configuration, store)

    monkeypatch.setattr(optimistic_transaction, "check_name", later)
    with pytest.raises(CommitUnknownError, match="new feature"):
        table.delete("id < 2")
    assert ids(tmp_path) == [*range(2, 10), *range(100, 104)]


def test_a_remove_of_another_writer_is_not_ours(table, tmp_path, monkeypatch):
    """Another writer rewrote the file, so its rows are live under another name."""

    def others():
        other = deltalake.DeltaTable(str(tmp_path))
        other.optimize.compact()
        by_delta_rs(tmp_path)

    meanwhile(monkeypatch, others)
    monkeypatch.setattr(freed_names, "_was_before", lambda checkpoints, commits, version: False, raising=True)
    with pytest.raises(CommitUnknownError):
        table.delete("id < 5")


def test_a_long_retention_needs_no_listing_after_the_put(tmp_path, monkeypatch):
    write_deltalake(tmp_path, pa.table({"id": [1]}), configuration={"delta.logRetentionDuration": "interval 2 hours"})
    listed = []
    listing = LocalStore.list_from
    table = DeltaTable(tmp_path)
    monkeypatch.setattr(
        LocalStore, "list_from", lambda self, folder, start="": listed.append(start) or listing(self, folder, start)
    )
    monkeypatch.setattr(optimistic_transaction, "run_hooks", lambda *_: None)
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    assert file_names.first_name(1) not in listed


def test_data_files_are_durable_before_the_listing_of_the_log(table, monkeypatch):
    """The slow step is not between the check of the log and the put."""
    steps = []
    for owner, name in (
        (LocalStore, "sync"),
        (optimistic_transaction, "check_read_version"),
        (optimistic_transaction, "put_commit"),
    ):
        real = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *args, real=real, name=name, **named: (steps.append(name), real(*args, **named))[1]
        )
    write_deltalake(table, pa.table({"id": [3]}), mode="append")
    assert steps[:3] == ["sync", "check_read_version", "put_commit"]
    assert json.loads((table.store.read(file_names.commit(2))).splitlines()[0])["commitInfo"]["operation"] == "WRITE"
