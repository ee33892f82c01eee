"""Commits: one winner for each version, conflicts as values, hooks that cannot fail a commit, rules of the table."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakehouse_lib.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    DeltaProtocolError,
    InvalidArgumentError,
    MetadataChangedError,
    ObjectNotFoundError,
    TooManyRetriesError,
    UnsupportedFeatureError,
)
from lakehouse_lib.expressions import parse
from lakehouse_lib.log.history import history
from lakehouse_lib.log.last_checkpoint_hint import read_hint
from lakehouse_lib.protocol.actions import Metadata, Protocol, Transaction
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.fault_store import FaultStore
from tests.log_builder import METADATA, SCHEMA, add, field, protocol, put, statistics, struct
from tests.table_builder import append, begin, create, files, paths_of

LOW, HIGH = statistics(1, 1), statistics(100, 100)


def outcome_of(transaction):
    outcome = transaction.commit()
    return outcome.error if isinstance(outcome, Conflict) else outcome


def test_two_first_commits_have_one_winner(tmp_path):
    for number in range(20):
        barrier = threading.Barrier(4)

        def race(_, number=number, barrier=barrier):
            store = LocalStore(str(tmp_path / str(number)), fsync=False)
            transaction = OptimisticTransaction(None, store, "CREATE TABLE", {})
            transaction.set_protocol(Protocol(1, 2))
            transaction.set_metadata(Metadata("t", SCHEMA))
            barrier.wait()
            return transaction.commit()

        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(race, range(4)))
        assert sum(isinstance(o, Committed) for o in outcomes) == 1
        assert all(isinstance(o.error, MetadataChangedError) for o in outcomes if isinstance(o, Conflict))


@pytest.mark.slow
def test_concurrent_appends_have_consecutive_versions(tmp_path):
    snapshot = create(tmp_path / "t")

    def write(i):
        transaction = begin(snapshot)
        transaction.add(files(f"f{i}"))
        return transaction.commit()

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(write, range(40)))
    assert sorted(o.version for o in outcomes) == list(range(1, 41))
    assert paths_of(load_snapshot(snapshot.store)) == sorted(f"f{i}" for i in range(40))
    assert read_hint(snapshot.store) == 40


def test_a_read_predicate_conflicts_only_with_rows_that_may_match(tmp_path):
    snapshot = create(tmp_path / "t")
    predicate = parse("id > 50", snapshot.schema, table=None)
    low, high = begin(snapshot), begin(snapshot)
    for transaction in (low, high):
        transaction.read(predicate)
        transaction.add(files("mine", stats=LOW))
    winner = begin(snapshot)
    winner.add(files("low", stats=LOW))
    winner.commit()
    assert outcome_of(low) == Committed(2, 2)
    winner = begin(load_snapshot(snapshot.store))
    winner.add(files("high", stats=HIGH))
    winner.commit()
    error = outcome_of(high)
    assert isinstance(error, ConcurrentAppendError)
    assert "WRITE of version 3" in str(error)
    assert "id > 50" in str(error)


def test_deletes_conflict_with_reads_and_with_deletes(tmp_path):
    snapshot = append(create(tmp_path / "t"), "a", "b")
    winner = begin(snapshot, "DELETE")
    winner.remove(files("a"))

    reader = begin(snapshot)
    reader.read(None)
    reader.add(files("r"))
    compaction = begin(snapshot, "OPTIMIZE")
    compaction.remove(files("a", "b"), data_change=False)
    compaction.add(files("ab", data_change=False))
    other = begin(snapshot, "OPTIMIZE")
    other.remove(files("b"), data_change=False)
    other.add(files("b2", data_change=False))

    assert isinstance(winner.commit(), Committed)
    assert isinstance(outcome_of(reader), ConcurrentDeleteReadError)
    assert isinstance(outcome_of(compaction), ConcurrentDeleteDeleteError)
    assert isinstance(outcome_of(other), Committed)
    assert paths_of(load_snapshot(snapshot.store)) == ["b2"]


def test_a_compaction_runs_beside_appends(tmp_path):
    snapshot = append(create(tmp_path / "t"), "a", "b")
    compaction = begin(snapshot, "OPTIMIZE")
    compaction.remove(files("a", "b"), data_change=False)
    compaction.add(files("ab", data_change=False))
    append(snapshot, "c")
    assert outcome_of(compaction) == Committed(3, 2)
    assert paths_of(load_snapshot(snapshot.store)) == ["ab", "c"]


def test_a_metadata_change_conflicts_with_commits_planned_before(tmp_path):
    snapshot = create(tmp_path / "t")
    late = begin(snapshot, adds=["a"])
    change = begin(snapshot, "SET TBLPROPERTIES")
    change.set_metadata(Metadata("t", SCHEMA, configuration={"delta.appendOnly": "true"}))
    change.commit()
    assert isinstance(outcome_of(late), MetadataChangedError)


def test_an_application_writes_each_of_its_versions_once(tmp_path):
    snapshot = create(tmp_path / "t")
    properties = CommitProperties(app_transactions=(Transaction("source", 3),))
    racing = begin(snapshot, adds=["racing"])
    first = begin(snapshot)
    first.add(files("first"))
    assert isinstance(first.commit(properties), Committed)
    assert isinstance(racing.commit(properties).error, ConcurrentTransactionError)
    again = begin(load_snapshot(snapshot.store), adds=["again"])
    assert "already has txn version 3" in str(again.commit(properties).error)
    assert load_snapshot(snapshot.store).transactions["source"].version == 3
    assert paths_of(load_snapshot(snapshot.store)) == ["first"]


def test_a_repeated_put_does_not_conflict_with_our_own_commit(tmp_path):
    def put_twice(put_if_absent, path, data):
        put_if_absent(path, data)
        return put_if_absent(path, data)

    snapshot = create(tmp_path / "t")
    store = FaultStore(snapshot.store.root, instead={"put_if_absent": put_twice})
    transaction = OptimisticTransaction(snapshot, store, "WRITE", {})
    transaction.add(files("a"))
    assert transaction.commit() == Committed(1, 1)
    assert load_snapshot(snapshot.store).version == 1


def test_a_checkpoint_that_fails_never_fails_the_commit(tmp_path, monkeypatch, caplog):
    from lakehouse_lib.transaction import post_commit as module

    snapshot = create(tmp_path / "t", {"delta.checkpointInterval": "1"})

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_checkpoint", full)
    assert append(snapshot, "a").version == 1
    assert "checkpoint failed after version 1" in caplog.text
    assert read_hint(snapshot.store) is None


def test_retries_are_bounded(tmp_path, monkeypatch):
    snapshot = create(tmp_path / "t")
    transaction = begin(snapshot, adds=["a"])

    def always_late(self, path, data):
        put(tmp_path / "t", int(path[-25:-5]), add(path[-25:-5]))
        return False

    monkeypatch.setattr(LocalStore, "put_if_absent", always_late)
    outcome = transaction.commit(CommitProperties(max_commit_retries=2))
    assert isinstance(outcome.error, TooManyRetriesError)
    assert "3 attempts lost the race to other writers and no retry is left" in str(outcome.error)
    assert "max_commit_retries" in outcome.error.hint


def test_an_append_only_table_refuses_removes(tmp_path):
    snapshot = append(create(tmp_path / "t", {"delta.appendOnly": "true"}), "a")
    delete = begin(snapshot, "DELETE")
    delete.remove(files("a"))
    with pytest.raises(DeltaProtocolError, match=r"appendOnly.*version 1"):
        delete.commit()
    rearranged = begin(snapshot, "OPTIMIZE")
    rearranged.remove(files("a"), data_change=False)
    rearranged.add(files("a2", data_change=False))
    assert isinstance(rearranged.commit(), Committed)


def _schema(noted):
    return json.dumps(struct(field("id", "long", **noted)))


@pytest.mark.parametrize(
    ("protocol", "metadata", "feature"),
    [
        ((1, 7, ["columnMappingUsageTracking"]), {}, "columnMappingUsageTracking"),
        ((1, 7, ["neverHeardOf"]), {}, "neverHeardOf"),
        ((1, 8, None), {}, "writer version 8"),
    ],
)
def test_unsupported_tables_are_read_and_writes_are_refused_by_name(tmp_path, protocol, metadata, feature):
    reader, writer, features = protocol
    body = {"minReaderVersion": reader, "minWriterVersion": writer} | ({"writerFeatures": features} if features else {})
    store = put(tmp_path, 0, {"protocol": body}, {"metaData": METADATA | metadata}, add("a"))
    snapshot = load_snapshot(store)
    assert paths_of(snapshot) == ["a"]
    transaction = begin(snapshot, adds=["b"])
    with pytest.raises(UnsupportedFeatureError, match=rf"{feature}.*{tmp_path}"):
        transaction.commit()
    assert load_snapshot(store).version == 0


@pytest.mark.parametrize(
    "listed", [["appendOnly", "invariants", "checkConstraints", "generatedColumns"], ["deletionVectors"]]
)
def test_listed_features_that_are_not_in_use_are_ignored(tmp_path, listed):
    readers = [feature for feature in listed if feature == "deletionVectors"]
    store = put(tmp_path, 0, protocol(*readers, writer=set(listed) - set(readers)), add("a"))
    assert append(load_snapshot(store), "b").version == 1


@pytest.mark.parametrize("feature", ["catalogManaged", "unheardOf"])
def test_reader_features_in_use_refuse_the_table(tmp_path, feature):
    store = put(tmp_path, 0, protocol(feature))
    with pytest.raises(UnsupportedFeatureError, match=feature):
        load_snapshot(store)


def test_a_commit_that_adds_a_missing_file_is_refused(tmp_path):
    snapshot = create(tmp_path / "t")
    transaction = OptimisticTransaction(snapshot, LocalStore(snapshot.store.root), "WRITE", {})
    transaction.add(files("never-written"))
    with pytest.raises(ObjectNotFoundError, match="never-written"):
        transaction.commit()
    assert load_snapshot(snapshot.store).version == 0


def test_history_has_the_operation_of_each_commit(tmp_path):
    snapshot = append(create(tmp_path / "t"), "a")
    entries = history(snapshot.store)
    assert [(e["version"], e["operation"]) for e in entries] == [(1, "WRITE"), (0, "CREATE TABLE")]
    assert entries[0]["operationParameters"] == {"mode": "Append"}
    assert entries[0]["timestamp"] > entries[1]["timestamp"]
    assert history(snapshot.store, 1) == entries[:1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), "\ud800"])
def test_metadata_that_is_not_json_is_refused(tmp_path, value):
    # Python's json would write NaN, and then no other reader could open the table.
    snapshot = create(tmp_path / "t")
    transaction = begin(snapshot, adds=["a"])
    with pytest.raises(InvalidArgumentError, match="as JSON"):
        transaction.commit(CommitProperties(custom_metadata={"share": value}))
    assert load_snapshot(snapshot.store).version == 0
