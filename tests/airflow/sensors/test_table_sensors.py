"""Sensors of tables: what they wait for, and that all that wait for a table share one poll."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, TaskDeferred
from airflow.triggers.base import TriggerEvent

from lakehouse_airflow import polling
from lakehouse_airflow.polling import TablePoll
from lakehouse_airflow.registry import load_registry
from lakehouse_airflow.sensors import (
    LakehouseFreshnessSensor,
    LakehousePartitionSensor,
    LakehouseQualitySensor,
    LakehouseSmallFilesSensor,
)
from lakehouse_airflow.triggers import TableTrigger
from lakehouse_lib.errors import StoreError
from lakehouse_lib.fleet.conditions import VersionReached, to_dict
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import LocalStore

WAITING = {"task_id": "wait", "poke_interval": 0.02, "timeout": 0.1}


def append(table: Path, **columns: list[Any]) -> str:
    partition = ["day"] if "day" in columns else None
    deltalake.write_deltalake(str(table), pa.table(columns), mode="append", partition_by=partition)
    return str(table)


def commit(table: Path, *versions: int) -> str:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (log / f"{version:020d}.json").write_text('{"commitInfo": {}}')
    return str(table)


def event_after(sensor: Any, change: Any) -> dict[str, Any]:
    """The result of a deferred sensor, whose trigger waits until ``change`` is called."""
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    _, arguments = deferred.value.trigger.serialize()
    arguments = json.loads(json.dumps(arguments))  # as Airflow stores it

    async def first_event() -> TriggerEvent:
        event = asyncio.ensure_future(anext(TableTrigger(**arguments).run()))
        await asyncio.sleep(0.1)
        assert not event.done()
        await asyncio.to_thread(change)
        return await asyncio.wait_for(event, 60)

    result: dict[str, Any] = sensor.execute_complete({}, asyncio.run(first_event()).payload)
    return result


def test_a_sensor_waits_for_new_rows(tmp_path: Path) -> None:
    old = datetime.now(UTC) - timedelta(days=2)
    table = append(tmp_path / "t", at=[old])
    assert LakehouseFreshnessSensor(table=table, max_age=60, deferrable=True, **WAITING).execute({})["version"] == 0
    sensor = LakehouseFreshnessSensor(table=table, max_age=timedelta(days=1), column="at", deferrable=True, **WAITING)
    result = event_after(sensor, lambda: append(tmp_path / "t", at=[datetime.now(UTC)]))
    assert (result["table"], result["version"]) == (table, 1)
    assert result["age_seconds"] < 3600
    assert sensor.result_version == (table, 1)


def test_a_sensor_waits_for_a_partition(tmp_path: Path) -> None:
    table = append(tmp_path / "t", day=["2026-01-30"], id=[1])
    sensor = LakehousePartitionSensor(table=table, partition={"day": "2026-01-31"}, deferrable=True, **WAITING)
    result = event_after(sensor, lambda: append(tmp_path / "t", day=["2026-01-31"], id=[2]))
    assert result == {"table": table, "version": 1, "files": 1}


def test_a_sensor_waits_until_files_are_compacted(tmp_path: Path) -> None:
    for number in range(3):
        table = append(tmp_path / "t", id=[number])
    with pytest.raises(AirflowSensorTimeout):
        LakehouseSmallFilesSensor(table=table, below="3", deferrable=False, **WAITING).execute({})
    sensor = LakehouseSmallFilesSensor(table=table, below="3", deferrable=True, **WAITING)
    result = event_after(sensor, lambda: deltalake.DeltaTable(table).optimize.compact())
    assert result == {"table": table, "version": 3, "small_files": 1}


def load(name: str, *rows: str) -> None:
    """Land a file of orders, and load it."""
    entry = load_registry().table("orders")
    assert entry.source is not None
    source = Source(
        table=entry.uri,
        landing=entry.source.landing,
        name=entry.source.name,
        format=SourceFormat("csv"),
        schema=Schema.from_json(Path(entry.schema_file or "").read_text()),
        suite=json.loads(Path(entry.suite or "").read_text()),
        quarantine=entry.quarantine or "",
    )
    (Path(source.landing) / name).write_text("\n".join(["o_orderkey,o_custkey", *rows]) + "\n")
    Load(source).run()


@pytest.mark.usefixtures("registry_file")
def test_a_sensor_waits_for_a_load_without_rejected_rows() -> None:
    load("a.csv", "1,1", "2,")  # the suite requires a customer
    accepting = LakehouseQualitySensor(table="orders", allow_rejected_rows="{{ true }}", deferrable=True, **WAITING)
    accepting.allow_rejected_rows = "True"  # as it is rendered
    assert accepting.execute({}) == {"table": "orders", "version": 0, "batch": 0, "has_rejected_rows": True}
    sensor = LakehouseQualitySensor(table="orders", deferrable=True, **WAITING)
    result = event_after(sensor, lambda: load("b.csv", "3,3"))
    assert result == {"table": "orders", "version": 1, "batch": 1, "has_rejected_rows": False}


def respell(registry_file: Path, **locations: str) -> None:
    """Change locations of the table orders in the registry."""
    body = json.loads(registry_file.read_text())
    body["tables"]["orders"] |= locations
    registry_file.write_text(json.dumps(body))


@pytest.mark.parametrize("spelling", ["file://{here}/rejected%20rows", "FILE://localhost{here}//rejected%20rows/"])
def test_a_sensor_finds_rejected_rows_in_any_spelling_of_the_quarantine(registry_file: Path, spelling: str) -> None:
    respell(registry_file, quarantine=spelling.format(here=registry_file.parent))
    load("a.csv", "1,1", "2,")
    sensor = LakehouseQualitySensor(table="orders", **WAITING)
    assert not sensor.poke({}).is_done
    sensor.allow_rejected_rows = True
    assert sensor.poke({}).xcom_value["has_rejected_rows"]


@pytest.mark.parametrize(
    "spelling", ["s3://lake/rejected%20rows", "s3a://lake/rejected rows", "S3://lake/rejected rows/"]
)
def test_a_quarantine_in_s3_is_spelled_as_the_root_of_its_store(registry_file: Path, spelling: str) -> None:
    respell(registry_file, uri="s3://lake/orders", quarantine=spelling)
    condition = LakehouseQualitySensor(table="orders", **WAITING).condition()
    assert condition.quarantine == "s3://lake/rejected rows"


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.usefixtures("registry_file")
def test_fields_that_do_not_fit_fail_the_task_at_once(tmp_path: Path, deferrable: bool) -> None:
    table = append(tmp_path / "t", id=[1])
    for sensor, message in (
        (LakehouseFreshnessSensor(table=table, max_age="soon", **WAITING), "max_age is 'soon'; expected a timedelta"),
        (LakehouseFreshnessSensor(table=table, max_age=60, column="id", **WAITING), "'id' is of type long"),
        (LakehousePartitionSensor(table=table, partition={}, **WAITING), "partition is {}; expected"),
        (LakehousePartitionSensor(table=table, partition={"id": 1}, **WAITING), "'id' is not a partition column"),
        (
            LakehousePartitionSensor(table=table, partition={"id": b"1"}, **WAITING),
            "column 'id' is b'1'; expected text",
        ),
        (LakehouseSmallFilesSensor(table=table, below=0, **WAITING), "below is 0; expected a number of files from 1"),
        (
            LakehouseSmallFilesSensor(table=table, below=2.9, **WAITING),
            "below is 2.9; expected a number of files from 1",
        ),
        (LakehouseQualitySensor(table=table, **WAITING), "the registry has no table"),
        (LakehouseQualitySensor(table="lineitem", **WAITING), "'lineitem' has no source"),
    ):
        sensor.deferrable = deferrable
        with pytest.raises(AirflowFailException, match=message):
            sensor.execute({})


class Counted:
    """The listings and reads of tables' logs, by table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listings: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()
        list_from, read = LocalStore.list_from, LocalStore.read

        def counted_list(store: LocalStore, *arguments: str) -> Any:
            self.listings[store.root] += 1
            return list_from(store, *arguments)

        def counted_read(store: LocalStore, path: str) -> bytes:
            self.reads[store.root] += 1
            return read(store, path)

        monkeypatch.setattr(LocalStore, "list_from", counted_list)
        monkeypatch.setattr(LocalStore, "read", counted_read)


def waiting_trigger(table: str, baseline_version: int, poke_interval: float = 0.5) -> TableTrigger:
    return TableTrigger(table=table, condition=to_dict(VersionReached(baseline_version)), poke_interval=poke_interval)


@pytest.mark.parametrize(
    ("count", "interval"), [(20, 0.2), pytest.param(1000, 2.0, marks=pytest.mark.slow)], ids=["20", "1000"]
)
def test_a_poll_of_many_tables_is_one_listing_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, interval: float
) -> None:
    tables = [commit(tmp_path / str(number), 0) for number in range(count)]
    counted = Counted(monkeypatch)
    polls = 3

    async def wait() -> list[TriggerEvent]:
        # Two sensors a table, as they would wait in one triggerer.
        triggers = [waiting_trigger(table, 0, interval) for table in tables for _ in range(2)]
        events = [asyncio.ensure_future(anext(trigger.run())) for trigger in triggers]
        while min((counted.listings[table] for table in tables), default=0) < polls:
            await asyncio.sleep(0.05)
        for table in tables:
            commit(Path(table), 1)
        return await asyncio.wait_for(asyncio.gather(*events), 300)

    began = time.monotonic()
    events = asyncio.run(wait())
    assert {event.payload["version"] for event in events} == {1}
    # At the first poll, a trigger does not take the answer of a listing that began before it.
    possible = (time.monotonic() - began) / interval + 2
    assert max(counted.listings.values()) <= possible + 1
    assert max(counted.reads.values()) <= 2  # the hint, which later polls do not read


def test_a_listing_that_began_earlier_is_not_an_answer(tmp_path: Path) -> None:
    table = commit(tmp_path / "t", 0)

    async def look() -> tuple[polling.ListedVersion, polling.ListedVersion, polling.ListedVersion]:
        poll = TablePoll.of("lakehouse_default", table)
        assert TablePoll.of("lakehouse_default", table) is poll
        first = await poll.look(time.monotonic())
        commit(tmp_path / "t", 1)
        return first, await poll.look(first.listed_at), await poll.look(time.monotonic())

    first, same, later = asyncio.run(look())
    assert (first.version, later.version) == (0, 1)
    assert same is first


def test_a_trigger_that_ends_does_not_stop_the_shared_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = commit(tmp_path / "t", 0)
    list_from = LocalStore.list_from

    def slow(store: LocalStore, *arguments: str) -> Any:
        time.sleep(0.3)
        return list_from(store, *arguments)

    monkeypatch.setattr(LocalStore, "list_from", slow)

    async def wait() -> TriggerEvent:
        killed = asyncio.ensure_future(anext(waiting_trigger(table, 0, 0.05).run()))
        waiting = asyncio.ensure_future(anext(waiting_trigger(table, 0, 0.05).run()))
        await asyncio.sleep(0.1)  # both wait for one listing
        killed.cancel()
        commit(tmp_path / "t", 1)
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(wait()).payload["version"] == 1


def test_a_condition_is_checked_once_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = commit(tmp_path / "t", 0)
    checked: list[int] = []
    check = VersionReached.check

    def recorded(condition: VersionReached, store: Any, version: int) -> Any:
        checked.append(version)
        if len(checked) == 1:
            raise StoreError("not now", table=store.root)
        return check(condition, store, version)

    monkeypatch.setattr(VersionReached, "check", recorded)

    async def wait() -> TriggerEvent:
        event = asyncio.ensure_future(anext(waiting_trigger(table, 0, 0.02).run()))
        while len(checked) < 2:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        commit(tmp_path / "t", 1)
        return await asyncio.wait_for(event, 60)

    assert asyncio.run(wait()).payload["version"] == 1
    assert checked == [0, 0, 1]  # a check that failed is repeated


def test_many_tables_share_a_connection_and_a_registry(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["orders", "lineitem", "customer"]
    for name in names:
        commit(registry_file.parent / "tables" / name, 0)
    reads: list[object] = []
    monkeypatch.setattr("lakehouse_airflow.hook.load_registry", lambda path: [reads.append(1), load_registry(path)][1])

    async def look() -> list[polling.ListedVersion]:
        polls = [TablePoll.of("lakehouse_default", name) for name in names]
        for poll in polls:
            await poll.look(time.monotonic())
        later = [await poll.look(time.monotonic()) for poll in polls]
        body = json.loads(registry_file.read_text())
        body["tables"]["new"] = {"uri": "tables/new"}
        registry_file.write_text(json.dumps(body))
        commit(registry_file.parent / "tables" / "new", 0)
        return [*later, await TablePoll.of("lakehouse_default", "new").look(time.monotonic())]

    assert [look.version for look in asyncio.run(look())] == [0, 0, 0, 0]
    assert len(reads) == 2  # for the three tables, and again for the one that they did not have
