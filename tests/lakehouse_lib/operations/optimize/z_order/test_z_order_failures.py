"""z_order that is refused, that loses a race, or whose files differ from the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties as PeerCommitProperties
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, ObjectNotFoundError, StoreError
from lakehouse_lib.operations.optimize.z_order.z_order import z_order
from lakehouse_lib.store import LocalStore
from tests.lakehouse_lib.operations.optimize.z_order.arrival_table import (
    make,
    rows,
    snapshot_of,
    target_for,
)
from tests.peers import parquet_files, read_delta_rs


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], r"columns is \[\]; expected at least one name.*Name the columns"),
        (["nope"], "the column 'nope' does not exist.*The columns are id, customer, item, status, day, tags"),
        (["customer", "customer"], "expected different names"),
        (["customer", "CUSTOMER"], "expected different names"),
        (["DAY"], "'day' is a partition column"),
        (["day"], "'day' is a partition column"),
        (["tags"], "'tags' of type .* has no order"),
    ],
)
def test_columns_that_cannot_be_z_ordered_by(tmp_path, columns, message):
    data = rows(100).append_column("day", pa.array(["a", "b"] * 50)).append_column("tags", pa.array([["x"]] * 100))
    uri = make(tmp_path / "table", data, partition_by=["day"])
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        z_order(snapshot_of(uri), ArrowEngine(), columns)
    assert uri in str(caught.value)
    assert DeltaTable(uri).version() == 3


def test_columns_are_found_regardless_of_case(tmp_path):
    uri = make(tmp_path / "table", rows(100))
    assert z_order(snapshot_of(uri), ArrowEngine(), ["Customer"]).metrics["zOrderBy"] == ["customer"]


@pytest.mark.parametrize("size", [0, -1])
def test_a_target_size_is_positive(table, size):
    with pytest.raises(InvalidArgumentError, match=str(size)):
        z_order(snapshot_of(table), ArrowEngine(), ["customer"], target_size=size)


def test_the_loser_of_a_race_plans_again_and_leaves_no_files(table):
    snapshot = snapshot_of(table)
    DeltaTable(table).delete("id < 10", commit_properties=PeerCommitProperties())
    version = DeltaTable(table).version()
    assert z_order(snapshot, ArrowEngine(), ["customer"], target_size=target_for(table, 4)).version == version + 1
    on_disk = {path.name for path in Path(table).glob("*.parquet")}
    names = {Path(file).name for v in range(version + 2) for file in DeltaTable(table, version=v).file_uris()}
    assert on_disk == names


def test_a_concurrent_append_is_kept(table, exchange_engine):
    snapshot = snapshot_of(table)
    write_deltalake(table, rows(500, seed=2), mode="append")
    before = read_delta_rs(table)
    z_order(snapshot, exchange_engine, ["customer"], target_size=target_for(table, 4))
    assert read_delta_rs(table) == before


def test_a_row_count_that_differs_from_the_log_stops_the_run(table):
    log = Path(table) / "_delta_log" / f"{3:020}.json"
    log.write_text(log.read_text().replace('\\"numRecords\\":2000', '\\"numRecords\\":1999'))
    with pytest.raises(LogCorruptedError, match="have 40000 rows; expected 39999 rows"):
        z_order(snapshot_of(table), ArrowEngine(), ["customer"], target_size=target_for(table, 4))
    assert DeltaTable(table).version() == 19


def test_the_files_of_a_run_that_fails_are_deleted(table, monkeypatch):
    before, opened = parquet_files(table), []
    open_output = LocalStore.open_output

    def fail_at_third(store, path):
        opened.append(path)
        if len(opened) == 3:
            raise StoreError("the disk is full", table=table)
        return open_output(store, path)

    monkeypatch.setattr(LocalStore, "open_output", fail_at_third)
    with pytest.raises(StoreError, match="the disk is full"):
        z_order(snapshot_of(table), ArrowEngine(1), ["customer"], target_size=target_for(table, 4))
    assert len(opened) == 3
    assert parquet_files(table) == before


def test_a_missing_file_is_named(table, exchange_engine):
    victim = Path(DeltaTable(table).file_uris()[5])
    victim.unlink()
    with pytest.raises(ObjectNotFoundError, match=victim.name):
        z_order(snapshot_of(table), exchange_engine, ["customer"], target_size=target_for(table, 4))
    assert DeltaTable(table).version() == 19
