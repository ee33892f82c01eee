"""Pins: a version that is kept by name survives vacuum and log cleanup; delta-rs and DuckDB read it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaError,
    InvalidArgumentError,
    ObjectNotFoundError,
    RetentionError,
    StoreError,
    VersionNotFoundError,
)
from lakehouse_lib.log.retention import cleanup as log_cleanup
from lakehouse_lib.log.retention import pins
from lakehouse_lib.operations.upkeep import pins as verbs
from lakehouse_lib.operations.upkeep import vacuum as vacuums
from lakehouse_lib.operations.upkeep.cleanup import cleanup
from lakehouse_lib.operations.upkeep.pins import pin_version
from lakehouse_lib.operations.upkeep.unneeded_files import deletion
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.store import LocalStore
from tests.peers import read_delta_rs
from tests.table_builder import longs

LATER = datetime.now(UTC) + timedelta(days=400)


def overwritten(root: Path, versions: int = 4, **options: object) -> DeltaTable:
    """A table of one row, which each version replaces: the row of a version has its number."""
    for number in range(versions):
        write_deltalake(root, longs(id=[number]), mode="overwrite", **(options if number == 0 else {}))
    return DeltaTable(root)


def vacuumed(root: Path) -> list[str]:
    table = DeltaTable(root)
    return table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


def ids(table: DeltaTable | deltalake.DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_vacuum_keeps_a_pinned_version_until_it_is_released(tmp_path: Path) -> None:
    table = overwritten(tmp_path)
    assert table.pin("model-2026-11", 1) == 1
    assert table.pins() == {"model-2026-11": 1}
    assert [entry.get("pins") for entry in table.history()] == [None, None, ["model-2026-11"], None]
    assert len(vacuumed(tmp_path)) == 2
    assert ids(DeltaTable(tmp_path, version=1)) == ids(deltalake.DeltaTable(tmp_path, version=1)) == [1]
    assert vacuumed(tmp_path) == []
    assert table.release("model-2026-11") == 1
    assert len(vacuumed(tmp_path)) == 1
    with pytest.raises(DeltaError, match="missing"):
        DeltaTable(tmp_path, version=1).to_pyarrow_table()


def test_deletion_vectors_of_a_pinned_version_are_kept(tmp_path: Path) -> None:
    write_deltalake(tmp_path, longs(id=[1, 2, 3]), configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable(tmp_path)
    table.delete("id = 1")
    table.pin("marked")
    table.delete("id = 2")
    write_deltalake(tmp_path, longs(id=[9]), mode="overwrite")
    vacuumed(tmp_path)
    assert ids(DeltaTable(tmp_path, version=1)) == [2, 3]


def test_cleanup_keeps_the_log_from_the_oldest_pin_on(tmp_path: Path) -> None:
    table = overwritten(tmp_path, 26)
    table.pin("new", 23)
    table.pin("old", 15)
    arguments = {"dry_run": False, "now": LATER}
    deleted = cleanup(table.snapshot, **arguments).files  # type: ignore[arg-type]
    assert f"_delta_log/{9:020d}.json" in deleted
    assert not any(f"{version:020d}" in path for path in deleted for version in range(10, 26))
    vacuumed(tmp_path)
    for version in (15, 23):
        assert ids(deltalake.DeltaTable(tmp_path, version=version)) == ids(DeltaTable(tmp_path, version)) == [version]
    assert not cleanup(table.snapshot, **arguments).files  # type: ignore[arg-type]
    table.release("old")
    assert cleanup(table.snapshot, **arguments).files  # type: ignore[arg-type]
    assert ids(DeltaTable(tmp_path, 23)) == [23]
    with pytest.raises(VersionNotFoundError):
        DeltaTable(tmp_path, 15)


def test_the_cleanup_after_a_commit_keeps_a_pinned_version(tmp_path: Path) -> None:
    table = overwritten(tmp_path, 12)
    table.pin("first", 3)
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        os.utime(commit, (1_700_000_000,) * 2)
    store = LocalStore(str(tmp_path))
    assert not log_cleanup.is_due(store, table.snapshot.metadata)
    overwritten(tmp_path, 9)  # version 20 has a checkpoint
    assert ids(DeltaTable(tmp_path, 3)) == [3]
    table.release("first")
    assert log_cleanup.is_due(store, table.snapshot.metadata)


def test_pins_are_not_restored_or_cloned(tmp_path: Path) -> None:
    """Unlike table properties, which a restore brings back."""
    table = overwritten(tmp_path / "t")
    table.pin("a", 1)
    table.restore(0)
    assert table.pins() == {"a": 1}
    assert table.clone(tmp_path / "copy").pins() == {}


def test_a_version_may_be_pinned_twice_and_again(tmp_path: Path) -> None:
    table = overwritten(tmp_path)
    for name in ("b", "a", "b"):
        table.pin(name, 2)
    table.pin("now")
    assert table.pins() == {"a": 2, "b": 2, "now": 3}
    assert table.history()[1]["pins"] == ["a", "b"]
    with pytest.raises(InvalidArgumentError, match="the pin a has version 2") as refused:
        table.pin("a", 1)
    assert refused.value.code == "DELTA_INVALID_PIN"
    moment = datetime.fromtimestamp(table.history()[2]["timestamp"] / 1000, UTC)
    assert table.pin("by-time", moment.isoformat()) == 1


@pytest.mark.parametrize("name", ["", ".a", "a/b", "../a", "a" * 101, "ä", None, 3, "a\n"])
def test_a_name_is_refused(tmp_path: Path, name: str) -> None:
    table = overwritten(tmp_path, 1)
    with pytest.raises(InvalidArgumentError, match="the name of a pin is"):
        table.pin(name)
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        table.release(name)
    assert table.pins() == {}


def test_a_version_without_its_files_cannot_be_pinned(tmp_path: Path) -> None:
    table = overwritten(tmp_path)
    vacuumed(tmp_path)
    with pytest.raises(ObjectNotFoundError) as gone:
        table.pin("late", 1)
    assert gone.value.code == "DELTA_VERSION_FILES_MISSING"
    with pytest.raises(VersionNotFoundError):
        table.pin("late", 99)
    with pytest.raises(InvalidArgumentError, match="version is True"):
        table.pin("late", True)
    assert table.pins() == {}


def test_a_damaged_record_stops_vacuum_and_cleanup(tmp_path: Path) -> None:
    table = overwritten(tmp_path)
    table.pin("a", 1)
    record = tmp_path / "_lakehouse" / "pins" / "a.arrow"
    record.write_bytes(record.read_bytes()[:-20])
    for call in (table.pins, lambda: vacuumed(tmp_path), lambda: cleanup(table.snapshot, now=LATER)):
        with pytest.raises(StoreError, match=r"pins/a\.arrow"):
            call()
    assert len(list(tmp_path.glob("*.parquet"))) == 4


def before_deleting(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Run an action in a vacuum that has read the pins for the last time."""
    delete_files = deletion.delete_files

    def late(*arguments: object) -> None:
        action()
        delete_files(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(deletion, "delete_files", late)


def test_a_pin_during_the_listing_of_a_vacuum_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = overwritten(tmp_path)
    needs = vacuums.file_needs

    def late(*arguments: object, **options: object) -> object:
        planned = needs(*arguments, **options)  # type: ignore[arg-type]
        table.pin("meanwhile", 1)
        return planned

    monkeypatch.setattr(vacuums, "file_needs", late)
    assert len(vacuumed(tmp_path)) == 2
    assert ids(read := DeltaTable(tmp_path, 1)) == [1]
    assert read.pins() == {"meanwhile": 1}


def test_a_pin_while_a_vacuum_deletes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = overwritten(tmp_path)
    refused: list[str] = []

    def pin() -> None:
        with pytest.raises(CommitFailedError) as error:
            pin_version(table.snapshot, "late", 1)
        refused.append(error.value.code)
        pin_version(table.snapshot, "latest")  # vacuum deletes no file of it

    before_deleting(monkeypatch, pin)
    vacuumed(tmp_path)
    assert refused == ["DELTA_VACUUM_RUNNING"]
    assert table.pins() == {"latest": 3}


def test_a_killed_vacuum_prevents_pins_of_old_versions_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = overwritten(tmp_path)

    def kill() -> None:
        raise KeyboardInterrupt

    before_deleting(monkeypatch, kill)
    monkeypatch.setattr(deletion.Deletion, "fail", lambda stopped: None)  # a killed process does not commit VACUUM END
    with pytest.raises(KeyboardInterrupt):
        vacuumed(tmp_path)
    with pytest.raises(CommitFailedError):
        table.pin("old", 1)
    start = tmp_path / "_delta_log" / f"{4:020d}.json"
    os.utime(start, (start.stat().st_mtime - 90_000,) * 2)
    table.pin("old", 1)


def test_a_pin_during_a_cleanup_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = overwritten(tmp_path, 22)
    plan = log_cleanup._plan

    def late(*arguments: object) -> object:
        planned = plan(*arguments)  # type: ignore[arg-type]
        table.pin("meanwhile", 5)
        return planned

    monkeypatch.setattr(log_cleanup, "_plan", late)
    assert not cleanup(table.snapshot, dry_run=False, now=LATER).files
    assert ids(DeltaTable(tmp_path, 5)) == [5]


def test_an_expired_version_is_not_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleanup that read the pins before may be deleting the log of the version."""
    table = overwritten(tmp_path, 22)
    table.pin("young", 5)
    for commit in (tmp_path / "_delta_log").iterdir():
        os.utime(commit, (1_700_000_000,) * 2)
    with pytest.raises(RetentionError, match=r"version 15 has expired.*expected at least version 20") as refused:
        table.pin("old", 15)
    assert refused.value.code == "DELTA_VERSION_EXPIRED"
    assert table.pins() == {"young": 5}
    table.pin("kept-by-the-cleanup", 20)
    with pytest.raises(RetentionError):
        table.pin("young", 5)  # the pin may be younger than a running cleanup
    monkeypatch.setattr(verbs.clock, "now", lambda: int(LATER.timestamp() * 1000))
    table.pin("young", 5)
    table.alter.set_table_properties({"delta.enableExpiredLogCleanup": "false"})
    table.pin("old", 15)
    assert sorted(table.pins()) == ["kept-by-the-cleanup", "old", "young"]


@pytest.mark.parametrize("deleter", ["vacuum", "cleanup"])
def test_a_pin_after_the_deletion_of_files_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleter: str
) -> None:
    """The version was opened before a vacuum or a cleanup deleted parts of it."""
    table = overwritten(tmp_path, 22)
    opened = DeltaTable(tmp_path, 5)
    put = pins.put_pin

    def late(*arguments: object) -> bool:
        if deleter == "vacuum":
            vacuum(table.snapshot, retention_hours=0, dry_run=False, enforce_retention_duration=False)
        else:
            cleanup(table.snapshot, dry_run=False, now=LATER)
        return put(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(verbs, "put_pin", late)
    with pytest.raises((ObjectNotFoundError, VersionNotFoundError)):
        opened.pin("late")
    assert table.pins() == {}


def test_the_vacuum_of_delta_rs_ignores_pins(tmp_path: Path) -> None:
    """As the docs say: pins are known to this library only. No vacuum deletes the record."""
    table = overwritten(tmp_path)
    table.pin("a", 1)
    other = deltalake.DeltaTable(tmp_path)
    other.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(DeltaError, match="missing"):
        DeltaTable(tmp_path, version=1).to_pyarrow_table()
    assert table.pins() == {"a": 1}
    assert read_delta_rs(tmp_path)["id"].to_pylist() == [3]
