"""The trigger that starts DAGs when the rows of a table have changed."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from airflow.sdk import Asset, AssetWatcher
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.triggers.base import TriggerEvent

from lakehouse_airflow import polling
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.triggers import TableVersionEventTrigger
from lakehouse_lib.errors import StoreError
from lakehouse_lib.store import LocalStore, ObjectStore


class State(dict[str, Any]):
    """The state of a watched asset, as the triggerer gives it to a trigger."""

    async def aget(self, key: str) -> Any:
        return self.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self[key] = value


def trigger(table: Path, state: Any = None) -> TableVersionEventTrigger:
    watching = TableVersionEventTrigger(table=str(table), poke_interval=0.02)
    path, arguments = watching.serialize()
    assert path == "lakehouse_airflow.triggers.TableVersionEventTrigger"
    copy = TableVersionEventTrigger(**json.loads(json.dumps(arguments)))
    copy.asset_state_store = state
    return copy


def append(table: Path) -> None:
    deltalake.write_deltalake(str(table), pa.table({"id": [1]}), mode="append")


async def event_after(events: AsyncIterator[TriggerEvent], change: Callable[[], object]) -> tuple[int, int]:
    event = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.1)
    assert not event.done()
    await asyncio.to_thread(change)
    payload = (await asyncio.wait_for(event, 60)).payload
    return payload["from_version"], payload["to_version"]


def test_each_change_of_rows_emits_an_event_and_compaction_does_not(tmp_path: Path) -> None:
    table = tmp_path / "t"

    async def watch() -> list[tuple[int, int]]:
        events = trigger(table).run()
        made = await event_after(events, lambda: append(table))
        more = await event_after(events, lambda: append(table))
        quiet = asyncio.ensure_future(anext(events))
        await asyncio.to_thread(deltalake.DeltaTable(str(table)).optimize.compact)
        await asyncio.sleep(0.1)
        assert not quiet.done()
        await asyncio.to_thread(append, table)
        payload = (await asyncio.wait_for(quiet, 60)).payload
        assert payload["table"] == str(table)
        return [made, more, (payload["from_version"], payload["to_version"])]

    made, more, last = asyncio.run(watch())
    assert [made, more, last] == [(-1, 0), (0, 1), (2, 3)]


def test_a_restart_continues_at_the_last_event(tmp_path: Path) -> None:
    table = tmp_path / "t"
    append(table)
    state = State()

    async def first() -> None:
        events = trigger(table, state).run()
        assert await event_after(events, lambda: append(table)) == (0, 1)
        assert state == {"lakehouse_version": 0}  # the event may not be stored yet
        waiting = asyncio.ensure_future(anext(events))
        while state != {"lakehouse_version": 1}:
            await asyncio.sleep(0.02)
        waiting.cancel()

    asyncio.run(first())
    append(table)  # while the triggerer is away
    append(table)

    async def again() -> tuple[int, int]:
        payload = (await asyncio.wait_for(anext(trigger(table, state).run()), 60)).payload
        return payload["from_version"], payload["to_version"]

    assert asyncio.run(again()) == (1, 3)
    assert asyncio.run(again()) == (1, 3)  # killed right after the event


def test_a_store_error_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t"
    append(table)

    def denied(self: LocalStore, *_: str) -> None:
        raise StoreError("_delta_log: Permission denied", table=self.root)

    async def watch() -> tuple[int, int]:
        events = trigger(table, State(lakehouse_version=0)).run()
        with monkeypatch.context() as failing:
            failing.setattr(LocalStore, "list_from", denied)
            event = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.1)
            assert not event.done()
        append(table)
        payload = (await asyncio.wait_for(event, 60)).payload
        return payload["from_version"], payload["to_version"]

    assert asyncio.run(watch()) == (0, 1)
    assert "Permission denied" in capfd.readouterr().out


def test_an_unavailable_api_during_a_read_of_commits_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t"
    append(table)
    append(table)
    monkeypatch.setattr(polling, "_KEPT_SECONDS", 0.0)  # so that each call opens the store again
    calls = itertools.count()

    class Hook(LakehouseHook):
        def store(self, table: str) -> ObjectStore:
            if next(calls) == 1:  # after the first listing
                raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
            return super().store(table)

    monkeypatch.setattr(polling, "LakehouseHook", Hook)

    async def watch() -> tuple[int, int]:
        events = trigger(table, State(lakehouse_version=0)).run()
        payload = (await asyncio.wait_for(anext(events), 60)).payload
        return payload["from_version"], payload["to_version"]

    assert asyncio.run(watch()) == (0, 1)
    assert "API_SERVER_ERROR" in capfd.readouterr().out


def test_an_unavailable_api_loses_no_event(tmp_path: Path) -> None:
    table = tmp_path / "t"
    append(table)

    class Away(State):
        """A state behind an API that refuses the first two requests of each kind."""

        def __init__(self, **values: int) -> None:
            super().__init__(values)
            self.failures = {"get": 2, "set": 2}

        def fail(self, kind: str) -> None:
            if self.failures[kind]:
                self.failures[kind] -= 1
                raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))

        async def aget(self, key: str) -> Any:
            self.fail("get")
            return await super().aget(key)

        async def aset(self, key: str, value: Any) -> None:
            self.fail("set")
            await super().aset(key, value)

    state = Away(lakehouse_version=-1)

    async def watch() -> tuple[int, int]:
        events = trigger(table, state).run()
        payload = (await asyncio.wait_for(anext(events), 60)).payload
        waiting = asyncio.ensure_future(anext(events))
        while state["lakehouse_version"] != 0:
            assert not waiting.done()
            await asyncio.sleep(0.02)
        waiting.cancel()
        return payload["from_version"], payload["to_version"]

    assert asyncio.run(watch()) == (-1, 0)


def test_an_asset_accepts_the_trigger(tmp_path: Path) -> None:
    watcher = AssetWatcher(name="orders", trigger=TableVersionEventTrigger(table=str(tmp_path / "t")))
    assert Asset(f"file://{tmp_path}/t", watchers=[watcher]).watchers == [watcher]
