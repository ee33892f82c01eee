"""The outcome of a commit is right if answers are lost, refused, repeated or missing, and if the log is gone."""

import errno
import shutil

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.errors import (
    CommitFailedError,
    CommitUnknownError,
    ObjectNotFoundError,
    StoreError,
    StoreRefusedError,
    TableNotFoundError,
)
from lakehouse_lib.log import file_names
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import LocalStore, local
from lakehouse_lib.transaction import Committed, Conflict, Unknown, put_commit, version_of
from tests.fault_store import FaultStore, answers, each
from tests.log_builder import add, put
from tests.table_builder import append, commit, create, paths_of


def faulty_store(root, puts=(), reads=0, **before):
    """A store whose puts of a commit are answered in these ways, after which so many reads of commits fail."""
    fail = each(*[unavailable] * reads)

    def read(path):
        if store.calls["put_if_absent"] and path.endswith(".json"):
            fail(path)

    store = FaultStore(root, before={"read": read, **before}, instead={"put_if_absent": answers(*puts)})
    return store


def unavailable(*_):
    raise StoreError("service unavailable")


def blind_store(root, **before):
    """A store in which another writer has the next version, whose commit cannot be read."""

    def read(path):
        if path == file_names.commit(1):
            raise ObjectNotFoundError(f"{path} is missing")

    return FaultStore(root, before={"read": read, **before}, instead={"put_if_absent": lambda *_: False})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(put_commit.time, "sleep", lambda _: None)


@pytest.mark.parametrize(
    ("puts", "reads"),
    [
        (["unanswered"], 0),
        (["lost"], 0),
        (["unanswered"], 3),
        (["lost", "lost", "unanswered"], 1),
        (["lost", "refused", "lost"], 0),  # a full disk after a lost answer leaves the first put unknown
        (["unanswered", "unanswered"], 1),
    ],
)
def test_lost_answers_are_resolved_by_the_log(tmp_path, puts, reads):
    snapshot = create(tmp_path / "t")
    assert commit(snapshot, faulty_store(snapshot.store.root, puts, reads)) == Committed(1, 1)
    assert paths_of(load_snapshot(snapshot.store)) == ["mine"]


def test_a_commit_that_is_not_durable_is_unknown(tmp_path, monkeypatch):
    """The commit's name is in its folder, but the folder was not synced: a power failure may remove it."""
    snapshot = create(tmp_path / "t")
    sync, failures, done = local._sync, [], []

    def failing(path):
        if path.name == file_names.LOG:
            if failures:
                raise failures.pop()
            done.append(path)
        sync(path)

    monkeypatch.setattr(local, "_sync", failing)
    store = LocalStore(snapshot.store.root)
    for name in ("mine", "other"):
        (tmp_path / "t" / name).touch()
    failures += [OSError(errno.EIO, "Input/output error")] * 3
    assert commit(snapshot, store) == Committed(1, 1)
    assert (failures, bool(done)) == ([], True)
    failures += [OSError(errno.EIO, "Input/output error")] * 1000
    assert isinstance(commit(load_snapshot(store), store, "other"), Unknown)


def test_a_delayed_put_does_not_replace_the_commit(tmp_path):
    # The first put arrives after its caller has given up.
    late = []

    def put_late(put_if_absent, path, data):
        if not late:
            late.append((path, data))
            raise StoreError("timed out")
        return put_if_absent(path, data)

    snapshot = create(tmp_path / "t")
    store = FaultStore(snapshot.store.root, instead={"put_if_absent": put_late})
    assert commit(snapshot, store) == Committed(1, 1)
    assert not snapshot.store.put_if_absent(*late[0])
    assert paths_of(load_snapshot(snapshot.store)) == ["mine"]


def test_a_lost_answer_in_a_lost_race_is_not_a_commit(tmp_path):
    snapshot = create(tmp_path / "t")
    race = each(lambda: put(tmp_path / "t", 1, add("theirs")))
    assert commit(snapshot, faulty_store(snapshot.store.root, ["lost"], put_if_absent=race)) == Committed(2, 2)
    assert paths_of(load_snapshot(snapshot.store)) == ["mine", "theirs"]


@pytest.mark.parametrize("answer", ["lost", "unanswered"])
def test_a_store_that_never_answers_leaves_the_outcome_unknown(tmp_path, answer):
    snapshot = create(tmp_path / "t")
    store = faulty_store(snapshot.store.root, [answer] * 1000, reads=1000)
    outcome = commit(snapshot, store)
    assert isinstance(outcome, Unknown)
    assert outcome.version == 1
    assert store.calls["put_if_absent"] == 10
    with pytest.raises(CommitUnknownError, match=rf"version 1.*{outcome.txn_id}") as caught:
        version_of(outcome)
    assert isinstance(caught.value.__cause__, StoreError)
    is_committed = answer == "unanswered"
    assert load_snapshot(snapshot.store).version == (1 if is_committed else 0)


def test_a_slow_store_without_answers_is_asked_three_times(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(put_commit.time, "monotonic", lambda: clock[0])

    def wait(_):
        clock[0] += 30

    snapshot = create(tmp_path / "t")
    store = faulty_store(snapshot.store.root, ["lost"] * 1000, reads=1000, put_if_absent=wait)
    assert isinstance(commit(snapshot, store), Unknown)
    assert store.calls["put_if_absent"] == 3


def test_a_failed_check_of_the_log_leaves_the_outcome_unknown(tmp_path):
    snapshot = create(tmp_path / "t")
    store = blind_store(snapshot.store.root, head=lambda _: store.calls["head"] > 1 and unavailable())
    assert isinstance(commit(snapshot, store), Unknown)


def test_files_of_an_unknown_commit_are_not_deleted(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    store = faulty_store(
        tmp_path / "t", ["unanswered"] * 1000, read=lambda path: path == file_names.commit(1) and unavailable()
    )
    with pytest.raises(CommitUnknownError):
        write(store, incoming(pa.table({"id": [2]})), Write(mode="append"), ArrowEngine())
    assert sorted(DeltaTable(tmp_path / "t").to_pyarrow_table()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("verb", ["write", "delete", "compact", "vacuum"])
def test_a_store_error_after_the_commit_does_not_fail_the_verb(tmp_path, monkeypatch, caplog, verb):
    # A caller repeats a commit after an error, and a repeated append duplicates rows.
    table = DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    for number in range(2):
        write_deltalake(table, pa.table({"id": [number]}), mode="append")
    verbs = {
        "write": lambda: write_deltalake(table, pa.table({"id": [2]}), mode="append"),
        "delete": lambda: table.delete("id = 0"),
        "compact": lambda: table.optimize.compact(),
        "vacuum": lambda: table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False),
    }

    def fail(snapshot, _version):
        raise StoreError("service unavailable", table=snapshot.store.root)

    monkeypatch.setattr(Snapshot, "after_commit", fail)
    verbs[verb]()
    assert "stays at version 2: [DELTA_STORE_ERROR] service unavailable" in caplog.text
    assert table.version() == 2
    monkeypatch.undo()
    table.update_incremental()
    assert table.version() == (2 if verb == "vacuum" else 3)  # vacuum had no file to delete


def test_a_refused_put_fails_immediately(tmp_path):
    snapshot = create(tmp_path / "t")
    store = faulty_store(snapshot.store.root, ["refused"])
    with pytest.raises(StoreRefusedError, match="no space"):
        commit(snapshot, store)
    assert store.calls["put_if_absent"] == 1
    assert load_snapshot(snapshot.store).version == 0


def test_a_taken_version_that_is_not_visible_is_unknown(tmp_path):
    snapshot = create(tmp_path / "t")
    assert isinstance(commit(snapshot, blind_store(snapshot.store.root)), Unknown)


def test_a_commit_to_a_table_that_was_deleted_is_refused(tmp_path):
    # Its commit file alone in a new folder would be a log that begins with a gap.
    snapshot = append(append(create(tmp_path / "t"), "a"), "b")
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match=r"the log no longer exists.*version 2"):
        commit(snapshot, snapshot.store)
    assert not (tmp_path / "t").exists()
    create(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match=r"ends at version 0, before version 2, which was opened"):
        commit(snapshot, snapshot.store)
    assert load_snapshot(snapshot.store).version == 0


def test_a_version_that_was_stored_and_cleaned_up_before_it_was_read_is_unknown(tmp_path):
    """A store repeats a put whose first answer was lost. It then refuses the version, which the commit itself has."""
    snapshot = create(tmp_path / "t")
    store = snapshot.store

    def put_twice(put_if_absent, path, data):
        assert put_if_absent(path, data)
        table = append(append(load_snapshot(store), "b"), "c")
        checkpoint(table)
        store.delete_many([file_names.commit(version) for version in range(table.version)])
        return False

    outcome = commit(snapshot, FaultStore(store.root, instead={"put_if_absent": put_twice}))
    assert isinstance(outcome, Unknown)
    assert "a log cleanup deleted the version before its owner could be read" in outcome.error.message
    assert paths_of(load_snapshot(store)) == ["b", "c", "mine"]


def test_a_commit_whose_winners_were_cleaned_up_is_a_conflict(tmp_path):
    snapshot = create(tmp_path / "t")
    store = snapshot.store
    base = snapshot
    for number in range(1, 4):
        base = append(base, f"f{number}")
    checkpoint(base)

    # The log is cleaned up between the lost put and the search for the winning commit.
    commits = [file_names.commit(1), file_names.commit(2)]
    outcome = commit(snapshot, FaultStore(store.root, before={"list_from": lambda _: store.delete_many(commits)}))
    assert isinstance(outcome, Conflict)
    assert type(outcome.error) is CommitFailedError
    assert "log cleanup removed commits after the read version" in str(outcome.error)
