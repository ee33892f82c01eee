"""The DAG files of docs/waiting.md, as printed, in a real Airflow with its scheduler and its triggerer."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from demo import airflow_process
from demo.errors import DemoError
from demo.home import Home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/waiting.md").read_text()


def dag_files(folder: Path, table: Path) -> None:
    """Write each DAG file of the page, with another location of the table and shorter intervals."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for number, block in enumerate(block for block in blocks if "with DAG" in block):
        text = block.replace("/data/orders", str(table))
        text = text.replace(f'watched_asset("{table}")', f'watched_asset("{table}", poke_interval=2)')
        text = text.replace('"timeout": 6 * 3600', '"timeout": 600, "poke_interval": 2')
        (folder / f"page_{number}.py").write_text(text)


def eventually(condition: Callable[[], Any], what: str, seconds: float = 400) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(DemoError):  # a server that is busy does not answer in time
            value = condition()
            if value:
                return value
        time.sleep(1)
    raise AssertionError(f"not in {seconds} s: {what}")


def append(table: Path, day: str) -> None:
    rows = pa.table({"id": [1], "day": [day]})
    deltalake.write_deltalake(str(table), rows, mode="append", partition_by=["day"])


@pytest.mark.timeout(1800)
def test_the_dags_of_the_page_run_when_the_table_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, dags, table = Home(tmp_path / "home"), tmp_path / "dags", tmp_path / "orders"
    dags.mkdir()
    home.root.mkdir()
    dag_files(dags, table)
    settings = airflow_process.settings
    own = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
        "LAKEHOUSE_REGISTRY": "",
        # A server that is busy fails tasks at their start.
        "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "9",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "2",
    }
    monkeypatch.setattr(airflow_process, "START_SECONDS", 600.0)  # other tests may run beside it
    monkeypatch.setattr(airflow_process, "settings", lambda *arguments: settings(*arguments) | own)
    with airflow_process.session(home) as state:
        api = airflow_process.api(home, state)
        eventually(lambda: {"after_orders", "daily_orders"} <= api.dag_ids() or api.import_errors(), "the DAGs")
        assert api.import_errors() == []
        api.unpause("after_orders")
        api.unpause("daily_orders")
        body = {"logical_date": "2026-01-31T00:00:00Z", "conf": {}}
        waiting = api._send("POST", "/api/v2/dags/daily_orders/dagRuns", body, token=api._bearer())["dag_run_id"]
        sensors = ("arrived", "fresh")
        eventually(
            lambda: (
                [task.state for task in api.tasks("daily_orders", waiting) if task.task_id in sensors]
                == ["deferred"] * 2
            ),
            "the sensors wait in the triggerer",
        )
        eventually(lambda: stored_version(home) == -1, "the watcher has seen that there is no table")
        assert api.runs("after_orders") == []

        append(table, "2026-01-31")
        (first,) = eventually(lambda: finished(api, "after_orders", 1), "a run for the first version")
        log = api.log("after_orders", first.run_id, api.tasks("after_orders", first.run_id)[0])
        assert re.search(r"changed: \{.*'from_version': -1, 'to_version': 0\}", log), log
        done = eventually(lambda: finished(api, "daily_orders", 1), "the sensors release the run")
        assert [run.state for run in done] == ["success"]
        facts = {name: api.xcom("daily_orders", waiting, name) for name in sensors}
        assert (facts["arrived"]["version"], facts["arrived"]["files"]) == (0, 1)
        assert facts["fresh"]["age_seconds"] < 26 * 3600

        append(table, "2026-02-01")
        deltalake.DeltaTable(str(table)).optimize.compact()
        eventually(lambda: finished(api, "after_orders", 2), "a run for the second version")
        runs = api.runs("after_orders")
        assert [run.state for run in runs] == ["success", "success"]
        eventually(lambda: (stored_version(home) or 0) >= 1, "the watcher stores the version of its last event")


def finished(api: Any, dag_id: str, count: int) -> list[Any]:
    runs = [run for run in api.runs(dag_id) if run.finished]
    return runs if len(runs) >= count else []


def stored_version(home: Home) -> int | None:
    """The version in the state of the watched asset."""
    with sqlite3.connect(f"file:{home.airflow / 'airflow.db'}?mode=ro", uri=True) as database:
        row = database.execute("SELECT value FROM asset_state_store WHERE key = 'lakehouse_version'").fetchone()
    return None if row is None else int(json.loads(row[0]))
