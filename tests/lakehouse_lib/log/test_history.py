"""Times of commits, and the version at a time."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.commits.commit_file import read_info
from lakehouse_lib.log.history import commit_times, history, version_at
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.log_builder import METADATA, PROTOCOL, add, put

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    """Versions 0, 1 and 2, an hour apart; the file of 3 has the modification time of 1, as after a copy."""
    for version, hours in enumerate((0, 1, 2, 1)):
        store = put(tmp_path, version, add(f"f{version}"))
        moment = (START + timedelta(hours=hours)).timestamp()
        os.utime(tmp_path / file_names.commit(version), (moment, moment))
    return store


def test_commit_times_always_rise(store):
    times = list(commit_times(store, list_commits(store)).values())
    assert times == sorted(set(times))
    assert times[3] == times[2] + 1


@pytest.mark.parametrize(
    ("after", "version"),
    [(timedelta(0), 0), (timedelta(minutes=59), 0), (timedelta(hours=1), 1), (timedelta(days=9), 3)],
)
def test_the_version_of_a_time(store, after, version):
    assert version_at(store, START + after) == version
    assert load_snapshot(store, timestamp=START + after).version == version


def test_a_time_without_a_time_zone_is_utc(store):
    assert version_at(store, datetime(2026, 1, 1, 1)) == 1


def test_times_outside_the_log(store):
    with pytest.raises(VersionNotFoundError, match=r"before the oldest commit.*2026-01-01T00:00:00\+00:00"):
        version_at(store, START - timedelta(seconds=1))
    with pytest.raises(VersionNotFoundError, match="in the future"):
        version_at(store, datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(InvalidArgumentError, match="expected only one of them"):
        load_snapshot(store, 1, timestamp=START)


def test_a_time_of_a_missing_table_is_an_error(tmp_path):
    with pytest.raises(TableNotFoundError):
        version_at(LocalStore(str(tmp_path / "none")), START)


TIMED = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}


def _with_times(root, times, since=None):
    """A log with the in-commit timestamps ``times`` (hours after START; None: none), enabled from ``since`` on."""
    configuration = {"delta.enableInCommitTimestamps": "true"}
    if since is not None:
        configuration |= {
            "delta.inCommitTimestampEnablementVersion": str(since),
            "delta.inCommitTimestampEnablementTimestamp": str(_ms(times[since])),
        }
    for version, hours in enumerate(times):
        info = {} if hours is None else {"inCommitTimestamp": _ms(hours)}
        metadata = [{"metaData": METADATA | {"configuration": configuration}}] if version == (since or 0) else []
        first = [{"protocol": TIMED}] if version == 0 else []
        if version == 0 and since:
            first.append({"metaData": METADATA})
        store = put(root, version, {"commitInfo": info}, *first, *metadata, add(f"f{version}"))
        moment = (START - timedelta(hours=100 - version)).timestamp()
        os.utime(root / file_names.commit(version), (moment, moment))
    return store


def _ms(hours):
    return int((START + timedelta(hours=hours)).timestamp() * 1000)


def test_in_commit_timestamps_win_over_file_times(tmp_path):
    store = _with_times(tmp_path, [0, 1, 5, 6])
    assert [entry["timestamp"] for entry in history(store)] == [_ms(h) for h in (6, 5, 1, 0)]
    assert commit_times(store, list_commits(store)) == {v: _ms(h) for v, h in enumerate((0, 1, 5, 6))}
    assert [version_at(store, START + timedelta(hours=h)) for h in (0, 1, 4.9, 5, 7)] == [0, 1, 1, 2, 3]
    with pytest.raises(VersionNotFoundError, match=r"before the oldest commit.*2026-01-01T00:00:00"):
        version_at(store, START - timedelta(seconds=1))
    assert [load_snapshot(store, version).timestamp for version in (1, 3)] == [_ms(1), _ms(6)]


def test_file_times_decide_before_the_enablement(tmp_path):
    # The timestamps in versions 0 and 1 do not count; their files are from 100 and 99 hours before START.
    store = _with_times(tmp_path, [50, None, 2, 3], since=2)
    assert [entry["timestamp"] for entry in history(store)] == [_ms(3), _ms(2), _ms(-99), _ms(-100)]
    hours = [(-99.5, 0), (-99, 1), (1.9, 1), (2, 2), (3, 3), (9, 3)]
    assert [version_at(store, START + timedelta(hours=h)) for h, _ in hours] == [v for _, v in hours]
    assert [load_snapshot(store, version).timestamp for version in (1, 2)] == [_ms(-99), _ms(2)]


def test_in_commit_timestamps_are_ignored_without_the_feature(store):
    put(store, 4, {"commitInfo": {"inCommitTimestamp": _ms(24)}})
    assert version_at(store, START + timedelta(hours=24)) == 3
    assert history(store, 1)[0]["timestamp"] != _ms(24)


def test_a_missing_in_commit_timestamp_is_an_error_with_the_feature(tmp_path):
    store = _with_times(tmp_path, [0, None])
    with pytest.raises(LogCorruptedError, match="inCommitTimestamp is None") as caught:
        history(store)
    assert caught.value.version == 1


@pytest.mark.slow
def test_the_version_of_a_time_reads_few_commits(tmp_path, monkeypatch):
    store = _with_times(tmp_path, list(range(200)))
    store.put(file_names.LAST_CHECKPOINT, b"{}")
    write_checkpoint(store, 199, load_snapshot(store).state, tombstones_since=0)
    read = []
    for name in ("read", "open_input"):
        real = getattr(LocalStore, name)
        monkeypatch.setattr(LocalStore, name, lambda self, path, real=real: read.append(path) or real(self, path))
    assert version_at(store, START + timedelta(hours=77.5)) == 77
    assert len([path for path in read if path.endswith(".json")]) <= 10


def test_only_the_beginning_of_a_large_commit_is_read(tmp_path, monkeypatch):
    files = [add(f"f{number}") for number in range(2_000)]
    infos = {0: {"operation": "WRITE"}, 1: {"operation": "MERGE", "note": "x" * 100_000}}
    for version, info in infos.items():
        store = put(tmp_path, version, {"commitInfo": info}, {"protocol": PROTOCOL}, {"metaData": METADATA}, *files)
    put(tmp_path, 2, *files, {"commitInfo": {"operation": "last line"}})
    assert [read_info(store, version)["operation"] for version in range(3)] == ["WRITE", "MERGE", "last line"]
    with pytest.raises(VersionNotFoundError):
        read_info(store, 3)
    monkeypatch.setattr(LocalStore, "read", None)
    assert read_info(store, 0) == infos[0]
