"""A table that is deleted or replaced before a writer commits: no partial table is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.expressions import parse
from lakehouse_lib.operations.dml.delete import delete
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.fault_store import FaultStore, each
from tests.faults import scenes


@pytest.mark.parametrize("fsync", [True, False])
@pytest.mark.parametrize("condition", ["id >= 0", "id = 3"], ids=["removes only", "rewrites"])
def test_a_retry_does_not_commit_into_a_deleted_log(tmp_path: Path, fsync: bool, condition: str) -> None:
    table = tmp_path / "t"
    for number in range(3):
        write_deltalake(table, scenes.rows(number), mode="append")

    # Another writer wins the race for the next version, then deletes the table.
    wins = each(lambda: write_deltalake(table, scenes.rows(9), mode="append"))
    vanishes = each(lambda: shutil.rmtree(table))
    store = FaultStore(table, before={"put_if_absent": wins}, after={"put_if_absent": vanishes}, fsync=fsync)
    snapshot = load_snapshot(store)
    with pytest.raises(DeltaError):
        delete(snapshot, parse(condition, snapshot.schema, table=None), ArrowEngine())
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("fsync", [True, False])
def test_the_first_put_does_not_commit_into_a_deleted_log(tmp_path: Path, fsync: bool) -> None:
    table = tmp_path / "t"
    for number in range(3):
        write_deltalake(table, scenes.rows(number), mode="append")
    snapshot = load_snapshot(LocalStore(str(table), fsync=fsync))
    assert snapshot.file_columns(["path"]).num_rows == 3
    condition = parse("id >= 0", snapshot.schema, table=None)
    whole = snapshot.files
    assert len(whole) == 3
    shutil.rmtree(table)
    with pytest.raises(DeltaError):
        delete(snapshot, condition, ArrowEngine())
    assert not list(tmp_path.rglob("*.json"))
    write_deltalake(table, scenes.rows(0))
    assert DeltaTable(table).version() == 0
