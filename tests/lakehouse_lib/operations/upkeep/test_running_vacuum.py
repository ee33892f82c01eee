"""Verbs that need the files of an old version, while a vacuum may delete them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import CommitFailedError, StoreError
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.transaction import OptimisticTransaction
from tests.fault_store import FaultStore
from tests.table_builder import longs

Verb = Callable[[Path, int], object]
VERBS: dict[str, Verb] = {
    "restore": lambda root, version: DeltaTable(root).restore(version),
    "pin": lambda root, version: DeltaTable(root).pin(f"v{version}", version),
    "clone": lambda root, version: DeltaTable(root, version).clone(f"{root}-{version}", is_shallow=True),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of one row, which each version replaces: the row of a version has its number."""
    for number in range(3):
        write_deltalake(tmp_path / "t", longs(id=[number]), mode="overwrite")
    return tmp_path / "t"


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_an_old_version_is_refused_while_a_vacuum_deletes(table: Path, verb: Verb) -> None:
    codes: list[str] = []

    def run(path: str) -> None:
        if path.endswith(".parquet"):
            with pytest.raises(CommitFailedError) as refused:
                verb(table, 0)
            codes.append(refused.value.code)
            verb(table, 2)  # the latest version has all of its files

    store = FaultStore(table, before={"delete_many": run})
    vacuum(load_snapshot(store), retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert codes == ["DELTA_VACUUM_RUNNING"]
    assert DeltaTable(table).version() == 4
    assert len(list((table / "_lakehouse").rglob("*.arrow"))) == (verb is not VERBS["restore"])
    assert not Path(f"{table}-0").exists()


def test_the_end_of_an_earlier_vacuum_does_not_hide_a_running_vacuum(table: Path) -> None:
    for operation in ("VACUUM START", "VACUUM END", "VACUUM START"):
        snapshot = DeltaTable(table).snapshot
        OptimisticTransaction(snapshot, snapshot.store, operation, {}).commit()
    for version, hours in enumerate((30, 29, 28, 27, 23, 2)):
        os.utime(table / "_delta_log" / f"{version:020}.json", (time.time() - 3600 * hours,) * 2)
    with pytest.raises(CommitFailedError, match="a vacuum is running"):
        DeltaTable(table).pin("old", 0)


def test_a_vacuum_that_an_error_has_stopped_is_not_running(table: Path) -> None:
    def fail(path: str) -> None:
        if path.endswith(".parquet"):
            raise StoreError("the disk is read-only")

    store = FaultStore(table, before={"delete_many": fail})
    with pytest.raises(StoreError, match="read-only"):
        vacuum(load_snapshot(store), retention_hours=0, dry_run=False, enforce_retention_duration=False)
    end = DeltaTable(table).history(1)[0]
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "FAILED"})
    DeltaTable(table).restore(0)
    assert DeltaTable(table).to_pyarrow_table()["id"].to_pylist() == [0]
