"""The history of health is a Delta table that delta-rs reads."""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.fleet.health import health, score
from lakehouse_lib.fleet.health.fleet_health import record_health
from lakehouse_lib.fleet.health.record import SCHEMA, HealthRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.fault_store import FaultStore
from tests.log_builder import add, put

DAY = 86_400_000
NOW = 1_800_000_000_000


def test_a_series_has_the_measurements_of_a_table(tmp_path: Path) -> None:
    for number in range(12):
        write_deltalake(tmp_path / "orders", pa.table({"id": [number]}), mode="append")
    metrics = health(load_snapshot(open_store(tmp_path / "orders")), clustered_by=["id"])
    record = HealthRecord(str(tmp_path / "records"))
    name = "lake's orders"
    assert record.series(name, 30).equals(SCHEMA.empty_table())
    record.append([])
    assert not (tmp_path / "records").exists()
    for age in (3, 1, 2):
        record.append([(name, replace(metrics, files=100 + age)), ("events", metrics)], now=NOW - age * DAY)
    series = record.series(name, 2.5, now=NOW)
    assert series.schema.equals(SCHEMA)
    assert series["files"].to_pylist() == [102, 101]
    row = series.to_pylist()[0]
    assert json.loads(row["reasons"]) == score(replace(metrics, files=102)).to_dict()["reasons"] != []
    assert (row["score"], json.loads(row["skipping"])) == (score(replace(metrics, files=102)).points, {"id": 11 / 12})
    assert len(DeltaTable(tmp_path / "records/health").to_pyarrow_table()) == 6


def test_files_of_earlier_rows_are_not_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "orders", pa.table({"id": [1]}))
    metrics = health(load_snapshot(open_store(tmp_path / "orders")))
    record = HealthRecord(str(tmp_path / "records"))
    record.append([("orders", metrics)], now=NOW - 10 * DAY)
    for file in (tmp_path / "records/health").glob("*.parquet"):
        file.unlink()
    record.append([("orders", metrics)], now=NOW)
    assert len(record.series("orders", 7, now=NOW)) == 1


def test_the_latest_measurement_of_each_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "orders", pa.table({"id": [1]}))
    metrics = health(load_snapshot(open_store(tmp_path / "orders")))
    record = HealthRecord(str(tmp_path / "records"))
    assert record.latest(7, now=NOW).equals(SCHEMA.empty_table())
    for age in (1, 3, 2):
        looks = [("orders", replace(metrics, files=100 + age)), ("old" if age == 3 else "events", metrics)]
        record.append(looks, now=NOW - age * DAY)
    latest = record.latest(2.5, now=NOW)
    assert dict(zip(latest["table"].to_pylist(), latest["files"].to_pylist(), strict=True)) == {
        "orders": 101,
        "events": metrics.files,
    }
    assert set(latest["timestamp"].to_pylist()) == {metrics.timestamp}


class BrokenFile(BytesIO):
    """A file whose connection to the store breaks."""

    def read(self, size: int | None = -1) -> bytes:
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation")


def test_a_large_commit_that_cannot_be_read_does_not_stop_the_health_of_the_other_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("large", "small"):
        put(tmp_path / name, 0, *(add(f"{number}") for number in range(1_000 if name == "large" else 1)))
    store = FaultStore(tmp_path / "large", instead={"open_input": lambda *_: BrokenFile()})
    tables = [MaintainedTable("large", store), MaintainedTable("small", open_store(tmp_path / "small"))]
    record = HealthRecord(str(tmp_path / "records"))
    record_health(tables, record)
    assert record.latest(1)["table"].to_pylist() == ["small"]
    assert "the health of large cannot be computed" in caplog.text
    assert "NETWORK_CONNECTION" in caplog.text
