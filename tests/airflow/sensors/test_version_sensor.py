"""The sensor for a table's version: the versions that it waits for, and that waiting blocks no worker."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferred,
)
from airflow.triggers.base import TriggerEvent

from lakehouse_airflow.sensors import LakehouseTableVersionSensor
from lakehouse_airflow.triggers import TableTrigger
from lakehouse_lib.errors import InvalidArgumentError, StoreError
from lakehouse_lib.fleet.conditions import VersionReached, to_dict
from lakehouse_lib.store import LocalStore


def commit(table: Path, *versions: int) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (log / f"{version:020d}.json").write_text('{"commitInfo": {}}')


def sensor(table: Path, **arguments: Any) -> LakehouseTableVersionSensor:
    return LakehouseTableVersionSensor(task_id="wait", table=str(table), poke_interval=0.02, timeout=0.1, **arguments)


def test_the_sensor_waits_while_the_table_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AirflowSensorTimeout):
        sensor(tmp_path / "none", deferrable=False, baseline_version=-1).execute({})
    with pytest.raises(TaskDeferred):
        sensor(tmp_path / "none", deferrable=True, baseline_version=-1).execute({})
    assert list(tmp_path.iterdir()) == []


def test_poking_returns_the_version(tmp_path: Path) -> None:
    commit(tmp_path / "t", 0, 1, 2)
    result = sensor(tmp_path / "t", deferrable=False, baseline_version="1").execute({})
    assert result == {"table": str(tmp_path / "t"), "version": 2, "baseline_version": 1}


def test_without_a_baseline_it_waits_for_the_next_version(tmp_path: Path) -> None:
    commit(tmp_path / "t", 0, 1)
    with pytest.raises(AirflowSensorTimeout):
        sensor(tmp_path / "t", deferrable=False).execute({})
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path / "t", deferrable=True).execute({})
    assert deferred.value.trigger.condition["baseline_version"] == 1


def test_an_existing_version_is_not_deferred(tmp_path: Path) -> None:
    commit(tmp_path / "t", 0)
    assert sensor(tmp_path / "t", deferrable=True, target_version=0).execute({})["version"] == 0


def test_deferring_and_coming_back(tmp_path: Path) -> None:
    table = tmp_path / "t"
    waiting = sensor(table, deferrable=True, baseline_version=-1)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    assert deferred.value.timeout == timedelta(seconds=0.1)
    path, arguments = deferred.value.trigger.serialize()
    assert path == "lakehouse_airflow.triggers.TableTrigger"
    assert arguments["table"] == str(table)

    async def first_event() -> TriggerEvent:
        events = TableTrigger(**arguments).run()
        event = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        assert not event.done()
        commit(table, 0)
        return await asyncio.wait_for(event, 60)

    event = asyncio.run(first_event())
    assert waiting.execute_complete({}, event.payload) == {"table": str(table), "version": 0, "baseline_version": -1}


def test_a_recreated_table_fails_the_task(tmp_path: Path) -> None:
    commit(tmp_path / "t", 0)
    for deferrable in (True, False):
        with pytest.raises(AirflowFailException, match="recreated"):
            sensor(tmp_path / "t", deferrable=deferrable, baseline_version=7).execute({})
        again = sensor(tmp_path / "t", deferrable=deferrable, baseline_version=7, allow_recreation=True)
        assert again.execute({})["version"] == 0

    async def first_event() -> TriggerEvent:
        return await anext(trigger(str(tmp_path / "t"), baseline_version=7).run())

    event = asyncio.run(first_event())
    with pytest.raises(AirflowFailException, match="recreated"):
        sensor(tmp_path / "t", deferrable=True).execute_complete({}, event.payload)


def test_bad_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="baseline_version is 'seven'"):
        sensor(tmp_path / "t", baseline_version="seven").execute({})
    with pytest.raises(AirflowFailException, match="reschedule"):
        sensor(tmp_path / "t", mode="reschedule", deferrable=False).execute({})


@pytest.mark.slow
def test_the_sensor_imports_neither_arrow_nor_spark(tmp_path: Path) -> None:
    commit(tmp_path / "t", 0, 1)
    code = f"""
import sys
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.triggers import TableTrigger
assert LakehouseHook().version({str(tmp_path / "t")!r}) == 1
assert LakehouseHook().version({str(tmp_path / "none")!r}) is None
heavy = {{"pyarrow", "pyspark", "pandas", "numpy"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


#: The sensor's looks at ``failing_store``.
LOOKS: list[str] = []
# The events with which Airflow resumes a task after its timeout, and after an error of its trigger.
TIMED_OUT = ("__fail__", {"error": "Trigger timeout"})
BROKEN = ("__fail__", {"error": "Trigger failure", "traceback": ["ImportError"]})


@pytest.fixture
def failing_store(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A store that fails until ``undo()``."""

    def denied(self: LocalStore, *_: str) -> None:
        LOOKS.append(str(self.root))
        raise StoreError("_delta_log: Permission denied", table=self.root)

    monkeypatch.setattr(LocalStore, "list_from", denied)
    return monkeypatch


def trigger(table: str, baseline_version: int = 0) -> TableTrigger:
    return TableTrigger(table=table, condition=to_dict(VersionReached(baseline_version)), poke_interval=0.02)


def test_after_a_store_error_the_sensor_waits_from_the_same_baseline(
    tmp_path: Path, failing_store: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    commit(tmp_path / "t", 0, 1)
    LOOKS.clear()

    async def first_event() -> TriggerEvent:
        event = asyncio.ensure_future(anext(trigger(str(tmp_path / "t")).run()))
        while len(LOOKS) < 2:  # the first look is logged before the second begins
            assert not event.done()
            await asyncio.sleep(0.05)
        failing_store.undo()
        return await asyncio.wait_for(event, 60)

    assert asyncio.run(first_event()).payload == {"version": 1, "baseline_version": 0}
    assert (
        f"StoreError: [DELTA_STORE_ERROR] _delta_log: Permission denied (table {tmp_path / 't'}); the next poke"
        in capfd.readouterr().out
    )


@pytest.mark.parametrize("incomplete", ['{"tables": {"ord', "", None])
def test_a_registry_that_is_being_written_does_not_end_the_wait(registry_file: Path, incomplete: str | None) -> None:
    commit(registry_file.parent / "tables" / "orders", 0, 1)
    whole = registry_file.read_text()
    registry_file.unlink() if incomplete is None else registry_file.write_text(incomplete)

    async def first_event() -> TriggerEvent:
        event = asyncio.ensure_future(anext(trigger("orders").run()))
        await asyncio.sleep(0.1)
        assert not event.done()
        registry_file.write_text(whole)
        return await asyncio.wait_for(event, 60)

    assert asyncio.run(first_event()).payload == {"version": 1, "baseline_version": 0}


def test_a_permanent_error_ends_the_wait_with_its_message(
    tmp_path: Path, registry_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first_event(table: str) -> TriggerEvent:
        return await asyncio.wait_for(anext(trigger(table).run()), 60)

    assert "the registry has no table 'nothing'" in asyncio.run(first_event("nothing")).payload["error"]

    def no_table(self: LocalStore, *_: str) -> None:
        raise InvalidArgumentError("an option that is none", table=self.root)

    monkeypatch.setattr(LocalStore, "list_from", no_table)
    event = asyncio.run(first_event(str(tmp_path / "t")))
    description = f"[DELTA_INVALID_ARGUMENT] an option that is none (table {tmp_path / 't'})"
    assert event.payload == {"error": f"InvalidArgumentError: {description}"}


@pytest.mark.parametrize("soft_fail", [False, True])
def test_an_error_fails_the_task_with_and_without_soft_fail(tmp_path: Path, soft_fail: bool) -> None:
    commit(tmp_path / "t", 0)
    waiting = sensor(tmp_path / "t", deferrable=True, baseline_version=7, soft_fail=soft_fail)
    with pytest.raises(AirflowFailException, match="recreated"):
        waiting.resume_execution("execute_complete", {"event": {"error": "recreated"}}, {})
    with pytest.raises(TaskDeferralError):
        waiting.resume_execution(*BROKEN, {})
    for deferrable in (True, False):
        with pytest.raises(AirflowFailException, match="recreated"):
            sensor(tmp_path / "t", deferrable=deferrable, baseline_version=7, soft_fail=soft_fail).execute({})


def test_soft_fail_skips_after_a_timeout(tmp_path: Path) -> None:
    commit(tmp_path / "t", 0)
    for versions in ({"baseline_version": 0}, {"target_version": "1"}, {}):
        with pytest.raises(AirflowSkipException):
            sensor(tmp_path / "t", deferrable=True, soft_fail=True, **versions).resume_execution(*TIMED_OUT, {})
        with pytest.raises(AirflowSensorTimeout):
            sensor(tmp_path / "t", deferrable=True, **versions).resume_execution(*TIMED_OUT, {})
        with pytest.raises(AirflowSkipException):
            sensor(tmp_path / "t", deferrable=False, soft_fail=True, **versions).execute({})


@pytest.mark.parametrize("versions", [{"baseline_version": "0"}, {"target_version": 1}, {}])
def test_a_store_error_at_the_timeout_fails_instead_of_skipping(
    tmp_path: Path, failing_store: pytest.MonkeyPatch, versions: dict[str, Any]
) -> None:
    commit(tmp_path / "t", 0, 1)
    waiting = sensor(tmp_path / "t", deferrable=True, soft_fail=True, **versions)
    with pytest.raises(AirflowException, match=r"DELTA_STORE_ERROR.* _delta_log: Permission denied") as error:
        waiting.resume_execution(*TIMED_OUT, {})
    assert type(error.value) is AirflowException  # which is retried
    failing_store.undo()
    if versions:  # the baseline was rendered as text
        baseline = 0 if "baseline_version" in versions else None
        expected = {"table": str(tmp_path / "t"), "version": 1, "baseline_version": baseline}
        assert waiting.resume_execution(*TIMED_OUT, {}) == expected


def test_never_fail_skips_on_every_error(tmp_path: Path) -> None:
    waiting = sensor(tmp_path / "t", deferrable=True, baseline_version=7, never_fail=True)
    with pytest.raises(AirflowSkipException):
        waiting.resume_execution("execute_complete", {"event": {"error": "recreated"}}, {})
