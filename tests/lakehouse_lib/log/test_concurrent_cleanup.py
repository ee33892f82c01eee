"""A cleanup deletes commits after a reader has listed them and before it reads them."""

from datetime import UTC, datetime

import pytest

from lakehouse_lib.change_data import commit_range
from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.history import history, version_at
from lakehouse_lib.operations.upkeep.checkpoint import checkpoint
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import Conflict
from tests.fault_store import FaultStore, each
from tests.log_builder import add, put
from tests.log_histories import DAY, PastLog, clean
from tests.table_builder import begin, create, paths_of

ICT = {"delta.enableInCommitTimestamps": "true"}


def racing_store(root, *meanwhile, kinds=("commit",)):
    """A store in which each of these events happens once, when a reader that has listed the log reads such a file."""
    listed, happens = [], each(*meanwhile)

    def happen(path):
        name = file_names.parse(path)
        if listed and name is not None and name.kind in kinds:
            happens(path)

    return FaultStore(root, before={"list_from": listed.append, "read": happen, "open_input": happen})


def cleaned(log, checkpoint=15):
    """A writer's checkpoint, and the cleanup after it."""

    def happen():
        log.checkpoint(checkpoint, "classic")
        assert file_names.commit(0) in clean(log, 40)

    return happen


@pytest.mark.parametrize("requested_version", [None, 18])
def test_a_version_with_a_checkpoint_is_opened_after_a_cleanup(tmp_path, requested_version):
    log = PastLog(tmp_path).commits(21)
    snapshot = load_snapshot(racing_store(tmp_path, cleaned(log)), requested_version)
    version = 20 if requested_version is None else requested_version
    assert (snapshot.version, snapshot.checkpoint_version) == (version, 15)
    assert paths_of(snapshot) == sorted(log.live[version])


def test_a_version_without_commits_and_checkpoint_is_reported_as_cleaned_up(tmp_path):
    log = PastLog(tmp_path).commits(21)
    with pytest.raises(VersionNotFoundError, match=r"DELTA_VERSION_NOT_FOUND.*version 7\)\. Give a version from 15"):
        load_snapshot(racing_store(tmp_path, cleaned(log)), 7)


@pytest.fixture(params=["classic", "parts", "json", "parquet", "classic with sidecars"])
def begins_at_5(request, tmp_path):
    """A log that begins at a checkpoint of this kind."""
    log = PastLog(tmp_path).commits(21)
    log.checkpoint(5, request.param)
    log.store.delete_many([file_names.commit(version) for version in range(5)])
    return log


def replaced(log):
    def happen():
        log.checkpoint(15, "classic")
        clean(log, 40)

    return happen


def test_a_deleted_checkpoint_is_not_reported_as_corrupt(begins_at_5, tmp_path):
    kinds = ("classic", "part", "uuid-json", "uuid-parquet")
    store = racing_store(tmp_path, replaced(begins_at_5), kinds=kinds)
    with pytest.raises(VersionNotFoundError, match=r"DELTA_VERSION_NOT_FOUND.*version 7\)\. Give a version from 15"):
        paths_of(load_snapshot(store, 7))


def test_a_deleted_checkpoint_of_an_open_version_is_not_reported_as_corrupt(begins_at_5, tmp_path):
    old = load_snapshot(LocalStore(str(tmp_path)), 7)
    replaced(begins_at_5)()
    with pytest.raises(VersionNotFoundError, match=r"DELTA_VERSION_NOT_FOUND.*version 7\)\. Give a version from 15"):
        paths_of(old)


def test_a_snapshot_is_updated_after_a_cleanup(tmp_path):
    log = PastLog(tmp_path).commits(6)
    snapshot = load_snapshot(log.store)
    log.commits(15)
    object.__setattr__(snapshot, "store", racing_store(tmp_path, cleaned(log)))
    latest = snapshot.update()
    assert (latest.version, latest.checkpoint_version) == (20, 15)
    assert paths_of(latest) == sorted(log.live[20])


def test_a_listing_without_the_open_version_is_not_another_table(tmp_path):
    log = PastLog(tmp_path).commits(11)
    hidden = []

    def behind(list_from, folder, start):
        late = {file_names.commit(version) for version in (hidden.pop(0) if hidden else ())}
        return (meta for meta in list_from(folder, start) if meta.path not in late)

    snapshot = load_snapshot(FaultStore(tmp_path, instead={"list_from": behind}))
    log.commits(2)
    hidden += [(11,), (10, 11, 12)]
    assert snapshot.update() is snapshot
    assert snapshot.update().version == 12


def test_a_writer_fails_if_its_version_was_cleaned_up(tmp_path):
    log = PastLog(tmp_path).commits(6)
    work = begin(load_snapshot(log.store), adds=["mine"], store=racing_store(tmp_path, cleaned(log)))
    log.commits(15)
    outcome = work.commit()
    assert isinstance(outcome, Conflict)
    assert outcome.error.code == "DELTA_COMMIT_FAILED"
    assert load_snapshot(LocalStore(str(tmp_path))).version == log.latest


def test_a_commit_that_is_listed_but_missing_is_an_error(tmp_path):
    log = PastLog(tmp_path).commits(3)

    first = list(log.store.list_from(file_names.LOG))
    log.store.delete_many([file_names.commit(1)])
    with pytest.raises(VersionNotFoundError, match="the commit file of version 1 does not exist"):
        load_snapshot(FaultStore(tmp_path, instead={"list_from": lambda *_: iter(first)}))
    assert log.latest == 2


@pytest.fixture
def timed(tmp_path):
    """Versions 0 to 9, one a day by their in-commit timestamps, and the time of version 0.

    While a reader reads it, a cleanup deletes everything before version 6.
    """
    created = create(tmp_path, ICT, Protocol(1, 7, None, frozenset({"inCommitTimestamp"}))).timestamp
    for version in range(1, 10):
        put(tmp_path, version, {"commitInfo": {"inCommitTimestamp": created + version * DAY}}, add(f"f{version}"))

    def happen():
        store = LocalStore(str(tmp_path))
        checkpoint(load_snapshot(store, 6))
        store.delete_many([file_names.commit(version) for version in range(6)])

    return racing_store(tmp_path, happen), created


def on_day(created, day):
    return datetime.fromtimestamp((created + day * DAY) / 1000, UTC)


def test_history_has_the_remaining_commits(timed):
    store, created = timed
    entries = [(entry["version"], entry["timestamp"]) for entry in history(store)]
    assert entries == [(version, created + version * DAY) for version in (9, 8, 7, 6)]


def test_the_version_of_a_time_is_one_of_the_remaining_versions(timed):
    store, created = timed
    assert version_at(store, on_day(created, 7.5)) == 7
    assert version_at(store, on_day(created, 6)) == 6


def test_a_time_of_a_cleaned_up_version_is_before_the_log(timed):
    store, created = timed
    with pytest.raises(VersionNotFoundError, match="before the oldest commit in the log"):
        version_at(store, on_day(created, 3))


@pytest.mark.parametrize("day", [None, 6.5])
def test_changes_of_the_remaining_commits_are_returned(timed, day):
    store, created = timed
    commits = commit_range(store, None if day else 7, None, on_day(created, day) if day else None, None)
    assert (commits.versions, commits.times) == (range(7, 10), tuple(created + version * DAY for version in (7, 8, 9)))


def test_changes_that_are_cleaned_up_during_the_read_are_an_error(timed):
    store, created = timed
    with pytest.raises(VersionNotFoundError, match="commit 5 was cleaned up during this read"):
        commit_range(store, None, None, on_day(created, 2.5), None)
