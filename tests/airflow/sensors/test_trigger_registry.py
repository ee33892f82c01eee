"""The registry of a trigger: a triggerer polls the table that the DAG file's registry names."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import deltalake
import pytest
from airflow.sdk.exceptions import TaskDeferred

from lakehouse_airflow import registry as plugin_registry
from lakehouse_airflow.assets import watched_asset
from lakehouse_airflow.sensors import LakehouseTableVersionSensor
from lakehouse_airflow.triggers import TableTrigger, TableVersionEventTrigger
from tests.table_builder import longs


@pytest.mark.parametrize("configured", [True, False], ids=["another registry", "no registry"])
def test_a_trigger_takes_the_registry_of_its_dag_file_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    for name, rows in (("mine", 2), ("other", 1)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"tables": {"orders": {"uri": f"{name}/orders"}}}))
        for key in range(rows):
            deltalake.write_deltalake(tmp_path / name / "orders", longs(k=[key]), mode="append")
    monkeypatch.delenv("LAKEHOUSE_REGISTRY", raising=False)
    monkeypatch.setattr(plugin_registry, "_used_registry", None)
    plugin_registry.use_registry(tmp_path / "mine.json")
    sensor = LakehouseTableVersionSensor(task_id="wait", table="orders", target_version=2, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    (watcher,) = watched_asset("orders").watchers
    triggers = [json.loads(json.dumps(each.serialize()[1])) for each in (deferred.value.trigger, watcher.trigger)]

    plugin_registry.use_registry(None)  # the process of the triggerer
    if configured:
        monkeypatch.setenv("LAKEHOUSE_REGISTRY", str(tmp_path / "other.json"))

    async def events() -> list[Any]:
        waiting = [
            kind(**values) for kind, values in zip((TableTrigger, TableVersionEventTrigger), triggers, strict=True)
        ]
        for trigger in waiting:
            trigger.poke_interval = 0.02
        runs = [asyncio.ensure_future(anext(trigger.run())) for trigger in waiting]
        await asyncio.sleep(0.2)
        await asyncio.to_thread(deltalake.write_deltalake, tmp_path / "mine" / "orders", longs(k=[9]), mode="append")
        return [(await asyncio.wait_for(run, 30)).payload for run in runs]

    reached, changed = asyncio.run(events())
    assert reached["version"] == 2
    assert changed == {"table": "orders", "from_version": 1, "to_version": 2}
