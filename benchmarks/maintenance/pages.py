"""Time the pages in Airflow: the list of 500 tables, and the pages of a table of a million files.

Airflow's API server runs in this process with an empty database. The list reads records that this benchmark writes: a
look at each table, and two steps of its maintenance. The table of a million files is that of the log benchmark. Of
each page, the first request and the median of the next ones are listed: the time, and the processor time of the
process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks.log.tables import CHECKPOINT, COMMITS, Shape, make
from benchmarks.process import ROOT


def configure(home: Path, large: Path, tables: int) -> None:
    """Set up an Airflow and a registry. Airflow reads its configuration when it is imported."""
    entries = {f"table_{number:03d}": {"uri": str(home / f"table_{number:03d}")} for number in range(tables - 1)}
    registry = {"records": str(home / "records"), "tables": {**entries, "large": {"uri": str(large)}}}
    (home / "lakehouse.json").write_text(json.dumps(registry))
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "of the benchmark alone" * 3,
        "LAKEHOUSE_REGISTRY": str(home / "lakehouse.json"),
    }


def write_records(home: Path, tables: int) -> None:
    """A look at each table, and a deferred and a done step of its maintenance."""
    from lakehouse_lib import DeltaTable, write_deltalake
    from lakehouse_lib.fleet.health.record import HealthRecord
    from lakehouse_lib.fleet.planner.step import Effect
    from lakehouse_lib.fleet.runs import RunRecord, StepRecord

    records, now = str(home / "records"), time.time_ns() // 1_000_000
    write_deltalake(home / "sample", pa.table({"id": range(10)}))
    health = DeltaTable(home / "sample").health()
    names = [f"table_{number:03d}" for number in range(tables - 1)]
    HealthRecord(records).append((name, health) for name in names)
    effect = Effect(1, 1, 1, 1, 1, 1, 1.0)
    deferred = StepRecord("r", "", "vacuum", "deferred", "old files", now, 0, 1, effect, effect)
    done = replace(deferred, verb="compact", status="done", measured=effect, version=1, finished_at=now)
    RunRecord(records).append([replace(step, table=name) for name in names for step in (deferred, done)])


def client() -> Any:
    """A client of Airflow's API server, as an administrator."""
    from airflow.api_fastapi.app import create_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    initdb()
    app = create_app()
    token = app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="ADMIN"))
    return TestClient(app, headers={"Authorization": f"Bearer {token}"})


def measure(pages: Any, path: str, rounds: int) -> str:
    """Request a page, check it, and measure it: the first request, and the median of the next ones."""
    times = []
    for _ in range(rounds + 1):
        wall, busy = time.perf_counter(), time.process_time()
        answer = pages.get(f"/lakehouse/{path}")
        times.append((time.perf_counter() - wall, time.process_time() - busy))
        if answer.status_code != HTTPStatus.OK:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text}")
    wall, busy = (statistics.median(column) * 1000 for column in zip(*times[1:], strict=True))
    first = " / ".join(f"{seconds * 1000:.0f}" for seconds in times[0])
    return f"{path}: first {first} ms, then {wall:.0f} / {busy:.0f} ms, {len(answer.content) / 1024:.0f} KiB"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance.pages", description=__doc__)
    parser.add_argument("--tables", type=int, default=500, help="tables of the registry (%(default)s)")
    parser.add_argument("--files", type=int, default=1_000_000, help="files of the large table (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="requests after the first (%(default)s)")
    parser.add_argument("--home", type=Path, default=ROOT / ".bench", help="folder of the tables (default: .bench)")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.tables < 1 or options.files < 1:
        parser.error("expected at least 1 round, 1 table and 1 file")
    large = make(options.home.resolve(), Shape(options.files))
    with TemporaryDirectory(prefix="lakehouse-pages-") as folder:
        configure(Path(folder), large, options.tables)
        write_records(Path(folder), options.tables)
        pages = client()
        pages.get("/lakehouse/static/lakehouse.css")  # the first request of a process imports modules
        version = COMMITS + CHECKPOINT
        of_large = (f"tables/large{rest}" for rest in ("", "?measure=true", f"/versions/{version}"))
        for path in ("tables", "tables?q=small&sort=bytes", *of_large):
            print(measure(pages, path, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
