"""Commit times and the version of a moment."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import names
from lakehouse_lib.log.history import commit_times, history, version_at
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table_properties import TableProperties, parse_interval
from tests.log_tables import add, put

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    """Versions 0, 1, 2 an hour apart; 3 has the modification time of 1, as after a copy."""
    for version, hours in enumerate((0, 1, 2, 1)):
        store = put(tmp_path, version, add(f"f{version}"))
        moment = (START + timedelta(hours=hours)).timestamp()
        os.utime(tmp_path / names.commit(version), (moment, moment))
    return store


def test_commit_times_always_rise(store):
    times = commit_times(store, list_commits(store))
    assert times == sorted(set(times))
    assert times[3] == times[2] + 1


@pytest.mark.parametrize(
    ("after", "version"),
    [(timedelta(0), 0), (timedelta(minutes=59), 0), (timedelta(hours=1), 1), (timedelta(days=9), 3)],
)
def test_the_version_of_a_moment(store, after, version):
    assert version_at(store, START + after) == version
    assert load_snapshot(store, timestamp=START + after).version == version


def test_a_moment_without_a_zone_is_utc(store):
    assert version_at(store, datetime(2026, 1, 1, 1)) == 1


def test_moments_outside_the_log(store):
    with pytest.raises(VersionNotFoundError, match=r"before the oldest commit.*2026-01-01T00:00:00\+00:00"):
        version_at(store, START - timedelta(seconds=1))
    with pytest.raises(VersionNotFoundError, match="in the future"):
        version_at(store, datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(InvalidArgumentError, match="both"):
        load_snapshot(store, 1, timestamp=START)


def test_a_moment_of_no_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        version_at(LocalStore(str(tmp_path / "none")), START)


def test_in_commit_timestamps_win_over_file_times(store):
    moment = int((START + timedelta(days=1)).timestamp() * 1000)
    store.put(names.commit(4), json.dumps({"commitInfo": {"inCommitTimestamp": moment}}).encode())
    assert history(store)[0]["timestamp"] == moment
    assert version_at(store, START + timedelta(hours=23)) == 3
    assert version_at(store, START + timedelta(hours=24)) == 4


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 1 week", timedelta(weeks=1)),
        ("INTERVAL 2 DAYS 3 hours", timedelta(days=2, hours=3)),
        ("168 hours", timedelta(days=7)),
        ("interval 0 hours", timedelta(0)),
    ],
)
def test_intervals(text, length):
    assert parse_interval(text, "p") == length


@pytest.mark.parametrize("text", ["", "interval", "1 month", "7", "interval -1 day", "1 day and more", "P7D"])
def test_intervals_that_are_none(text):
    with pytest.raises(InvalidArgumentError, match=r"delta\.deletedFileRetentionDuration"):
        TableProperties.of({"delta.deletedFileRetentionDuration": text})


@pytest.mark.parametrize("text", ["0", "-1", "ten", ""])
def test_a_checkpoint_interval_that_is_none(text):
    with pytest.raises(InvalidArgumentError, match=r"delta\.checkpointInterval"):
        TableProperties.of({"delta.checkpointInterval": text})
