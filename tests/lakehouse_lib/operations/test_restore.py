"""RESTORE: the tables that delta-rs' restore makes, and what a table keeps that has gone on since."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, Transaction, write_deltalake
from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaProtocolError,
    InvalidArgumentError,
    ObjectNotFoundError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from lakehouse_lib.operations import missing_files as module
from lakehouse_lib.operations.restore import restore
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import OptimisticTransaction
from tests.fault_store import FaultStore
from tests.peers import parquet_files, plain, read_by_all, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow
from tests.table_builder import longs

VECTORS = {"delta.enableDeletionVectors": "true"}
METRICS = {
    *("numRestoredFiles", "restoredFilesSize", "numRemovedFiles", "removedFilesSize"),
    *("numOfFilesAfterRestore", "tableSizeAfterRestore"),
}


def data(start: int, *more: str) -> pa.Table:
    numbers = range(start, start + 20)
    columns = {"id": pa.array(numbers, pa.int64()), "part": [f"p{number % 3}" for number in numbers]}
    return pa.table({**columns, **{name: pa.array(numbers, pa.int64()) for name in more}})


def step(chance: random.Random, table: DeltaTable, number: int) -> None:
    """A random verb."""
    root, start = table.table_uri, 100 * number
    verbs: list[Callable[[], object]] = [
        lambda: write_deltalake(root, data(start), mode="append"),
        lambda: write_deltalake(root, data(start, f"more{number % 3}"), mode="append", schema_mode="merge"),
        lambda: write_deltalake(root, data(start, "other"), mode="overwrite", schema_mode="overwrite"),
        lambda: write_deltalake(root, data(start), mode="overwrite"),
        lambda: table.delete(f"id % 7 = {number % 7}"),
        lambda: table.update({"part": "'p1'"}, predicate="part = 'p2'"),
        lambda: table.optimize.compact(),
        lambda: table.create_checkpoint(),
    ]
    with contextlib.suppress(SchemaMismatchError):  # the table has other columns meanwhile
        chance.choice(verbs)()
    table.update_incremental()


def described(root: Path) -> dict[str, Any]:
    table = deltalake.DeltaTable(root)
    metadata = table.metadata()
    return {
        "schema": table.schema().to_json(),
        "protocol": tuple(table.protocol()),
        "configuration": metadata.configuration,
        "partition columns": metadata.partition_columns,
        "id": metadata.id,
    }


@pytest.mark.parametrize("seed", some_slow(range(12), 1))
def test_beside_delta_rs(tmp_path: Path, seed: int) -> None:
    """Random verbs and then some restores; after each, both tables are the same."""
    chance = random.Random(seed)
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    write_deltalake(own, data(0), partition_by=chance.choice([None, ["part"]]), configuration={"a": "b"})
    table = DeltaTable(own)
    for number in range(1, 8):
        step(chance, table, number)
    shutil.copytree(own, peer)
    for _ in range(3):
        version = chance.randrange(table.version())
        metrics = table.restore(version)
        expected = deltalake.DeltaTable(peer).restore(version)
        assert {name: metrics[name] for name in expected} == expected
        assert read_by_all(own).to_pylist() == read_delta_rs(peer).to_pylist()
        assert described(own) == described(peer)


def test_vectors_are_restored_with_their_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0), configuration=VECTORS)
    write_deltalake(tmp_path, data(20), mode="append")
    table = DeltaTable(tmp_path)
    for condition in ("id = 3", "id BETWEEN 4 AND 24", "id > 30"):
        table.delete(condition)
    table.optimize.purge()
    table.delete("id < 10")
    latest = table.version()
    read = [plain(DeltaTable(tmp_path, version).to_pyarrow_table()).to_pylist() for version in range(latest + 1)]
    for version in (2, 4, 1, latest, 3, 0):
        table.restore(version)
        assert read_by_all(tmp_path).to_pylist() == read[version]


def test_history_shows_the_restore(tmp_path: Path) -> None:
    for start in (0, 20, 40):
        write_deltalake(tmp_path, data(start), mode="append" if start else "error")
    table = DeltaTable(tmp_path)
    properties = CommitProperties(custom_metadata={"reason": "test"}, app_transactions=[Transaction("app", 1)])
    metrics = table.restore(0, commit_properties=properties)
    assert (metrics["version"], table.version(), metrics["missing_files"]) == (3, 3, [])
    (commit,) = table.history(1)
    sizes = {path: path.stat().st_size for path in parquet_files(tmp_path)}
    (left,) = table.files()["size"].to_pylist()
    assert (commit["operation"], commit["operationParameters"]) == ("RESTORE", {"version": "0"})
    assert commit["reason"] == "test"
    assert {name: int(value) for name, value in commit["operationMetrics"].items()} == {
        "numRestoredFiles": 0,
        "restoredFilesSize": 0,
        "numRemovedFiles": 2,
        "removedFilesSize": sum(sizes.values()) - left,
        "numOfFilesAfterRestore": 1,
        "tableSizeAfterRestore": left,
    }
    table.restore(2)
    (commit,) = table.history(1)
    assert set(commit["operationMetrics"]) == METRICS
    assert commit["operationMetrics"]["tableSizeAfterRestore"] == str(sum(sizes.values()))
    actions = [json.loads(line) for line in (tmp_path / "_delta_log" / f"{4:020}.json").read_text().splitlines()]
    assert [action["add"]["dataChange"] for action in actions if "add" in action] == [True, True]


def test_by_time(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path, data(20 * number), mode="append" if number else "error")
        moment = dt.datetime(2026, 1, 1 + number, tzinfo=dt.UTC).timestamp()
        path = tmp_path / "_delta_log" / f"{number:020}.json"
        os.utime(path, (moment, moment))
    table = DeltaTable(tmp_path)
    table.restore("2026-01-02T12:00:00Z")
    assert table.to_pyarrow_table().num_rows == 40
    parameters = table.history(1)[0]["operationParameters"]
    assert parameters == {"version": "1", "timestamp": "2026-01-02T12:00:00+00:00"}
    table.restore(dt.datetime(2026, 1, 1, 12))
    assert table.to_pyarrow_table().num_rows == 20
    with pytest.raises(VersionNotFoundError):
        table.restore("2025-01-01")
    assert table.version() == 4


def test_restore_restores_metadata_and_keeps_the_protocol(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0), partition_by="part", description="first", configuration={"mine": "1"})
    before = DeltaTable(tmp_path)
    DeltaTable.create(
        tmp_path, data(0, "more").schema, mode="overwrite", configuration={**VECTORS, "delta.checkpointInterval": "7"}
    )
    write_deltalake(tmp_path, data(0, "more"), mode="append")
    table = DeltaTable(tmp_path)
    protocol = table.protocol()
    table.restore(0)
    assert table.protocol() == protocol
    assert table.metadata() == before.metadata()
    assert table.schema() == before.schema()
    assert read_by_all(tmp_path).equals(plain(before.to_pyarrow_table()))
    table.restore(2)
    assert table.metadata().configuration["delta.checkpointInterval"] == "7"
    assert table.metadata().partition_columns == []
    table.delete("id = 3")
    assert read_by_all(tmp_path).num_rows == 19


def test_features_of_the_version_are_restored(tmp_path: Path) -> None:
    """The deletion vectors of a version need their feature, even if an engine has dropped it since."""
    write_deltalake(tmp_path, data(0), configuration=VECTORS)
    table = DeltaTable(tmp_path)
    table.delete("id < 5")
    table.delete()
    snapshot = table.snapshot
    drop = OptimisticTransaction(snapshot, snapshot.store, "DROP FEATURE", {})
    drop.set_protocol(Protocol(1, 2))
    drop.set_metadata(dataclasses.replace(snapshot.metadata, configuration={}))
    drop.commit()
    table.restore(1)
    assert "deletionVectors" in (table.protocol().reader_features or ())
    assert read_by_all(tmp_path).num_rows == 15


def test_column_ids_are_not_reused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0), configuration={"delta.columnMapping.mode": "name"})
    write_deltalake(tmp_path, data(20, "more"), mode="append", schema_mode="merge")
    table = DeltaTable(tmp_path)
    table.restore(0)
    assert table.metadata().configuration["delta.columnMapping.maxColumnId"] == "3"
    write_deltalake(tmp_path, data(40, "more"), mode="append", schema_mode="merge")
    table.update_incremental()
    fields = {field.name: field.metadata for field in table.schema().fields}
    assert fields["more"]["delta.columnMapping.id"] == 4
    assert read_duckdb(tmp_path).equals(plain(table.to_pyarrow_table()))
    table.restore(1)
    assert read_duckdb(tmp_path).equals(plain(table.to_pyarrow_table()))
    assert table.to_pyarrow_table()["more"].null_count == 20


def test_commit_times_keep_rising(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0), configuration={"mine": "1"})
    DeltaTable.create(
        tmp_path, data(0).schema, mode="overwrite", configuration={"delta.enableInCommitTimestamps": "true"}
    )
    write_deltalake(tmp_path, data(20), mode="append")
    table = DeltaTable(tmp_path)
    for version in (0, 2, 1):
        table.restore(version)
    commits = table.history()
    times = [commit["timestamp"] for commit in commits]
    assert times == sorted(times, reverse=True)
    assert [("inCommitTimestamp" in commit) for commit in commits] == [True, True, False, True, True, False]
    since = table.metadata().configuration["delta.inCommitTimestampEnablementVersion"]
    assert since == "4"
    assert read_by_all(tmp_path).num_rows == 0


def vacuumed(root: Path, files: int, configuration: dict[str, str] | None = None) -> DeltaTable:
    """A table whose first files are deleted: they were compacted and vacuumed."""
    for number in range(files):
        write_deltalake(root, data(20 * number), mode="append", configuration=None if number else configuration)
    table = DeltaTable(root)
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    return table


@pytest.mark.parametrize("most_requests", [1000, 0], ids=["requests", "listing"])
def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_requests: int) -> None:
    monkeypatch.setattr(module, "_MOST_REQUESTS", most_requests)
    table = vacuumed(tmp_path, 12)
    version, paths = table.version(), DeltaTable(tmp_path, 11).files()["path"].to_pylist()
    with pytest.raises(ObjectNotFoundError, match="12 of 12 files of version 11 do not exist") as caught:
        table.restore(11)
    assert caught.value.code == "DELTA_VERSION_FILES_MISSING"
    assert sum(path in caught.value.message for path in paths) == 10
    assert "and 2 more" in caught.value.message
    report = table.restore(11, dry_run=True)
    assert (sorted(report["missing_files"]), report["version"]) == (sorted(paths), version)
    assert DeltaTable(tmp_path).version() == version

    write_deltalake(tmp_path, data(900), mode="append")
    table.delete("id >= 900")
    table.restore(version + 1, ignore_missing_files=True)  # no file of it is missing
    assert read_by_all(tmp_path).num_rows == 260
    metrics = table.restore(11, ignore_missing_files=True)
    assert (metrics["numRestoredFile"], metrics["numRemovedFile"], len(metrics["missing_files"])) == (0, 2, 12)
    assert read_by_all(tmp_path).num_rows == 0


def test_a_file_without_its_vector_is_left_out(tmp_path: Path) -> None:
    write_deltalake(tmp_path, longs(id=range(20_000)), configuration=VECTORS)
    write_deltalake(tmp_path, longs(id=[-1]), mode="append")
    table = DeltaTable(tmp_path)
    table.delete("id % 7 = 3")
    table.delete()
    (vector,) = tmp_path.glob("deletion_vector*")  # too large to be in the log
    vector.unlink()
    with pytest.raises(ObjectNotFoundError, match="1 of 2 files of version 2 do not exist"):
        table.restore(2)
    table.restore(2, ignore_missing_files=True)
    assert read_by_all(tmp_path).to_pylist() == [{"id": -1}]


def test_equal_versions_commit_nothing(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0))
    table = DeltaTable(tmp_path)
    assert table.restore(0)["version"] == 0
    assert table.restore(dt.datetime.now(dt.UTC))["version"] == 0
    write_deltalake(tmp_path, data(0), mode="append")
    report = table.restore(0, dry_run=True)
    assert (report["numRemovedFile"], report["dry_run"], report["version"]) == (1, True, 1)
    assert table.to_pyarrow_table().num_rows == 40


@pytest.mark.parametrize("target", [None, True, 1.0, "yesterday", -1, 9])
def test_targets_that_do_not_exist(tmp_path: Path, target: Any) -> None:
    write_deltalake(tmp_path, data(0))
    with pytest.raises((InvalidArgumentError, VersionNotFoundError)):
        DeltaTable(tmp_path).restore(target)
    assert DeltaTable(tmp_path).version() == 0


def test_what_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path, data(0), configuration={"delta.appendOnly": "true"})
    write_deltalake(tmp_path, data(0), mode="append")
    table = DeltaTable(tmp_path)
    with pytest.raises(InvalidArgumentError, match="protocol_downgrade_allowed"):
        table.restore(0, protocol_downgrade_allowed=True)
    for dry_run in (True, False):
        with pytest.raises(DeltaProtocolError, match="appendOnly"):
            table.restore(0, dry_run=dry_run)
    assert table.version() == 1


def start_vacuum(root: Path) -> None:
    snapshot = load_snapshot(LocalStore(str(root)))
    assert OptimisticTransaction(snapshot, snapshot.store, "VACUUM START", {}).commit()


@pytest.mark.parametrize(
    "winner",
    [
        lambda root: write_deltalake(root, data(0), mode="append"),
        lambda root: DeltaTable(root).delete("id = 1"),
        lambda root: DeltaTable(root).restore(0),
        lambda root: DeltaTable(root).optimize.compact(),
        start_vacuum,
    ],
    ids=["append", "delete", "restore", "compact", "vacuum"],
)
def test_any_concurrent_commit_is_a_conflict(tmp_path: Path, winner: Callable[[Path], object]) -> None:
    properties = {"delta.isolationLevel": "WriteSerializable"}
    for number in range(3):
        write_deltalake(tmp_path, data(20 * number), mode="append", configuration=None if number else properties)

    def win(path: str) -> None:
        if path.endswith("3.json"):
            winner(tmp_path)

    store = FaultStore(tmp_path, before={"put_if_absent": win})
    snapshot = load_snapshot(store)
    with pytest.raises(CommitFailedError):
        restore(snapshot, 1)
    latest = DeltaTable(tmp_path)
    assert latest.version() == 3
    assert restore(latest.snapshot, 1).version == 4


def test_vacuum_keeps_files_that_a_restore_makes_live(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path, data(20 * number), mode="append")
    table = DeltaTable(tmp_path)
    table.optimize.compact()
    went_first: list[str] = []

    def restore_first(path: str) -> None:
        if path.endswith("4.json") and not went_first:
            went_first.append(path)
            DeltaTable(tmp_path).restore(2)

    store = FaultStore(tmp_path, before={"put_if_absent": restore_first})
    result = vacuum(load_snapshot(store), retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert went_first
    assert result.files == ()
    assert read_by_all(tmp_path).num_rows == 60
    assert longs(id=range(60)).to_pylist() == read_by_all(tmp_path).select(["id"]).sort_by("id").to_pylist()
