"""In-commit timestamps rise with the versions, in every race and with every clock."""

import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from unittest import mock

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib.errors import LogCorruptedError, MetadataChangedError
from lakehouse_lib.features.in_commit_timestamp import next_timestamp
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checksum import read_checksum
from lakehouse_lib.log.history import history, version_at
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from lakehouse_lib.transaction import Committed, Conflict, OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.faults.scenes import clock_off_by
from tests.log_builder import SCHEMA, put
from tests.peers import plain, read_delta_rs, read_duckdb
from tests.table_builder import append, begin, create, longs

ON = {"delta.enableInCommitTimestamps": "true"}
SINCE, SINCE_TIME = "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"
TIMED = Protocol(1, 7, None, frozenset({"appendOnly", "invariants", "inCommitTimestamp"}))
HOUR = 3600.0


def rows(start, count=100):
    return longs(id=range(start, start + count))


def timed(root):
    """A table of files without data, with in-commit timestamps since version 0."""
    return create(root, ON, TIMED)


def turning_on(snapshot):
    transaction = OptimisticTransaction(snapshot, snapshot.store, "SET TBLPROPERTIES", {})
    transaction.set_metadata(replace(snapshot.metadata, configuration={**snapshot.configuration, **ON}))
    transaction.set_protocol(TIMED)
    return transaction


def first_action(store, version):
    """The first action of a commit, its commitInfo."""
    name, body = json.loads(store.read(file_names.commit(version)).split(b"\n")[0]).popitem()
    assert name == "commitInfo"
    return body


def times(store, first=0):
    latest = load_snapshot(store).version
    return [first_action(store, version)["inCommitTimestamp"] for version in range(first, latest + 1)]


def rises(moments):
    return all(later > earlier for earlier, later in pairwise(moments))


def test_every_verb_writes_in_commit_timestamps_that_others_can_read(tmp_path):
    started = time.time_ns() // 1_000_000
    write_deltalake(tmp_path, rows(0), configuration=ON)
    for start in (100, 200):
        write_deltalake(tmp_path, rows(start), mode="append")
    DeltaTable(tmp_path).delete("id < 50")
    DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, rows(300), mode="append")
    DeltaTable(tmp_path).optimize.z_order(["id"])
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    write_deltalake(tmp_path, rows(1000, 10), mode="overwrite")
    table = DeltaTable(tmp_path)
    entries = table.history()
    assert [entry["operation"] for entry in entries][::-1] == [
        *("WRITE", "WRITE", "WRITE", "DELETE", "OPTIMIZE", "WRITE", "OPTIMIZE", "VACUUM START", "VACUUM END", "WRITE")
    ]
    store = LocalStore(str(tmp_path))
    moments = times(store)
    assert [entry["timestamp"] for entry in entries][::-1] == moments
    assert rises([started - 1, *moments, time.time_ns() // 1_000_000 + 1])
    for version, moment in enumerate(moments):
        assert version_at(store, datetime.fromtimestamp(moment / 1000, UTC)) == version
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert "inCommitTimestamp" in protocol.writer_features
    assert not {SINCE, SINCE_TIME} & set(table.metadata().configuration)
    for read in (read_delta_rs, read_duckdb):
        assert read(tmp_path)["id"].to_pylist() == list(range(1000, 1010))
    assert read_checksum(store, len(moments) - 1).in_commit_timestamp == moments[-1]


def test_a_clock_that_falls_back_gives_the_next_millisecond(tmp_path):
    snapshot = timed(tmp_path)
    for number, offset in enumerate((2 * HOUR, -HOUR, -400 * 24 * HOUR, 0, HOUR)):
        with clock_off_by(offset):
            snapshot = append(snapshot, f"f{number}")
    created, ahead, *behind = times(snapshot.store)
    assert ahead - created >= 2 * HOUR * 1000
    assert behind == [ahead + 1, ahead + 2, ahead + 3, ahead + 4]
    assert [entry["timestamp"] for entry in history(snapshot.store)][::-1] == [created, ahead, *behind]


@pytest.mark.parametrize(("now", "previous", "timestamp"), [(70, None, 70), (70, 60, 70), (70, 70, 71), (70, 90, 91)])
def test_a_timestamp_is_later_than_the_previous_version(now, previous, timestamp):
    assert next_timestamp(now, previous) == timestamp


def test_of_two_commits_planned_on_one_version_the_later_has_the_later_time(tmp_path):
    snapshot = timed(tmp_path)
    first, second, third = (begin(snapshot, adds=[name]) for name in ("a", "b", "c"))
    with clock_off_by(HOUR):
        assert first.commit() == Committed(1, 1)
    assert second.commit() == Committed(2, 2)
    with clock_off_by(-HOUR):
        assert third.commit() == Committed(3, 2)
    _, first_time, second_time, third_time = times(snapshot.store)
    assert (second_time, third_time) == (first_time + 1, first_time + 2)


@pytest.mark.slow
def test_times_rise_among_threads_whose_clocks_differ(tmp_path):
    snapshot = timed(tmp_path)
    wall = time.time_ns

    def some_clock():
        return wall() + random.randrange(10**10)

    with mock.patch.object(time, "time_ns", some_clock), ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda name: begin(snapshot, adds=[f"f{name}"]).commit(), range(32)))
    assert sorted(outcome.version for outcome in outcomes) == list(range(1, 33))
    assert rises(times(snapshot.store))


def test_metadata_of_a_caller_cannot_set_the_timestamp(tmp_path):
    snapshot = timed(tmp_path)
    metadata = {"who": "me"}
    properties = CommitProperties(metadata)
    metadata["inCommitTimestamp"] = 1  # this time would have been refused before
    begin(snapshot, adds=["a"]).commit(properties)
    assert rises(times(snapshot.store))
    assert first_action(snapshot.store, 1)["who"] == "me"


def test_time_rises_at_the_enabling_commit_which_records_its_version(tmp_path):
    snapshot = append(create(tmp_path), "a")
    late = time.time() + 5000
    os.utime(tmp_path / file_names.commit(1), (late, late))
    snapshot = load_snapshot(snapshot.store)
    assert turning_on(snapshot).commit() == Committed(2, 1)
    append(load_snapshot(snapshot.store), "b")
    latest = load_snapshot(snapshot.store)
    assert "inCommitTimestamp" not in first_action(snapshot.store, 1)
    enabled, after = times(snapshot.store, 2)
    assert after == enabled + 1 == int(late * 1000) + 2
    assert (latest.configuration[SINCE], latest.configuration[SINCE_TIME]) == ("2", str(enabled))
    assert [entry["timestamp"] for entry in history(snapshot.store, 3)] == [after, enabled, int(late * 1000)]


def test_the_enablement_is_recomputed_after_a_lost_race(tmp_path):
    snapshot = create(tmp_path)
    enabling = turning_on(snapshot)
    append(snapshot, "a")
    late = time.time() + 5000
    os.utime(tmp_path / file_names.commit(1), (late, late))
    assert enabling.commit() == Committed(2, 2)
    latest = load_snapshot(snapshot.store)
    moment = first_action(snapshot.store, 2)["inCommitTimestamp"]
    assert moment == int(late * 1000) + 1
    assert (latest.configuration[SINCE], latest.configuration[SINCE_TIME]) == ("2", str(moment))
    assert latest.timestamp == moment


def test_an_append_uses_timestamps_that_were_enabled_concurrently(tmp_path):
    snapshot = create(tmp_path)
    late = begin(snapshot, adds=["a"])
    schema = OptimisticTransaction(snapshot, snapshot.store, "ADD COLUMNS", {})
    schema.set_metadata(replace(snapshot.metadata, schema_string=SCHEMA.replace('"id"', '"other"')))
    assert isinstance(turning_on(snapshot).commit(), Committed)
    assert late.commit() == Committed(2, 2)
    assert rises(times(snapshot.store, 1))
    lost = schema.commit()
    assert isinstance(lost, Conflict)
    assert isinstance(lost.error, MetadataChangedError)
    off = OptimisticTransaction(load_snapshot(snapshot.store), snapshot.store, "SET TBLPROPERTIES", {})
    off.set_metadata(snapshot.metadata)
    late = begin(load_snapshot(snapshot.store), adds=["b"])
    assert isinstance(off.commit(), Committed)
    assert late.commit() == Committed(4, 2)
    assert "inCommitTimestamp" not in first_action(snapshot.store, 4)


def test_a_replaced_table_keeps_the_enablement(tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    snapshot = append(create(tmp_path), "a")
    turning_on(snapshot).commit()
    since = {key: load_snapshot(store).configuration[key] for key in (SINCE, SINCE_TIME)}
    create_table(store, snapshot.schema, mode="overwrite", configuration=ON)
    latest = load_snapshot(store)
    assert {key: latest.configuration[key] for key in since} == since
    assert [entry["version"] for entry in history(store)] == [3, 2, 1, 0]
    create_table(store, snapshot.schema, mode="overwrite")
    assert not latest.update().configuration
    create_table(store, snapshot.schema, mode="overwrite", configuration=ON)
    again = latest.update()
    assert (again.version, again.configuration[SINCE]) == (5, "5")
    assert again.configuration[SINCE_TIME] == str(first_action(store, 5)["inCommitTimestamp"])


def test_a_commit_after_a_missing_timestamp_is_refused(tmp_path):
    snapshot = timed(tmp_path)
    late = begin(snapshot, adds=["a"])
    put(tmp_path, 1, {"commitInfo": {"operation": "WRITE"}})
    with pytest.raises(LogCorruptedError, match=r"inCommitTimestamp.*version 1"):
        late.commit()
    with pytest.raises(LogCorruptedError, match=r"inCommitTimestamp.*version 1"):
        begin(load_snapshot(snapshot.store), adds=["a"]).commit()
    assert snapshot.store.head(file_names.commit(2)) is None


def test_the_property_without_the_feature_has_no_effect(tmp_path):
    """delta-rs sets the property on any table and leaves the protocol unchanged; so do its commits."""
    deltalake.write_deltalake(tmp_path, rows(0))
    deltalake.DeltaTable(tmp_path).alter.set_table_properties(ON, raise_if_not_exists=False)
    deltalake.write_deltalake(tmp_path, rows(100), mode="append")
    write_deltalake(tmp_path, rows(200), mode="append")
    deltalake.write_deltalake(tmp_path, rows(300), mode="append")
    table = DeltaTable(tmp_path)
    assert [entry["version"] for entry in table.history()] == [4, 3, 2, 1, 0]
    assert table.detail()["lastModified"].timestamp() * 1000 == table.snapshot.modified
    assert "inCommitTimestamp" not in first_action(table.snapshot.store, 3)
    assert table.cleanup_metadata(dry_run=True) == []
    assert read_delta_rs(tmp_path) == read_duckdb(tmp_path) == plain(table.to_pyarrow_table())


def test_timestamps_begin_with_the_commit_that_adds_the_feature(tmp_path):
    deltalake.write_deltalake(tmp_path, rows(0))
    deltalake.DeltaTable(tmp_path).alter.set_table_properties(ON, raise_if_not_exists=False)
    deltalake.write_deltalake(tmp_path, rows(100), mode="append")
    more = rows(200).append_column("other", pa.nulls(100, pa.string()))
    write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    table = DeltaTable(tmp_path)
    assert "inCommitTimestamp" in table.protocol().writer_features
    assert table.metadata().configuration[SINCE] == "3"
    times = [entry["timestamp"] for entry in table.history()]
    assert times == sorted(times, reverse=True)
    assert len(times) == 4
