"""A maintenance run is killed with ``kill -9`` at each step of each verb; the next run finishes and repeats nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib.fleet.maintenance import maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.fleet.runs import RunRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.store import open_store
from tests.faults.processes import context
from tests.faults.writer import STEPS

pytestmark = pytest.mark.slow

#: The most kills of a verb, spread over all of its steps.
_KILLS = 25
_MONTHS_AGO = time.time() - 100 * 86_400


def small_files(table: Path) -> None:
    for number in range(6):
        ids = pa.array(range(number, 600, 6), pa.int64())
        deltalake.write_deltalake(table, pa.table({"id": ids, "text": [str(each) for each in ids]}), mode="append")


def without_statistics(table: Path) -> None:
    small_files(table)
    for commit in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        commit.write_text("\n".join(map(json.dumps, actions)))


def many_commits(table: Path) -> None:
    small_files(table)
    small_files(table)


def removed_files(table: Path) -> None:
    small_files(table)
    DeltaTable(table).optimize.compact()


def old_commits(table: Path) -> None:
    small_files(table)
    DeltaTable(table).create_checkpoint()
    old = list((table / "_delta_log").iterdir())
    small_files(table)
    for file in old:
        os.utime(file, (_MONTHS_AGO, _MONTHS_AGO))


#: By verb, a function that makes a table that needs it.
TABLES: dict[Verb, Callable[[Path], None]] = {
    "optimize": small_files,
    "z_order": small_files,
    "compute_statistics": without_statistics,
    "checkpoint": many_commits,
    "vacuum": removed_files,
    "cleanup": old_commits,
}


def table_of(path: Path, verb: Verb) -> MaintainedTable:
    policy = Policy(
        verbs=(verb,),
        cluster_by=("id",) if verb == "z_order" else (),
        retention_hours=0 if verb == "vacuum" else None,
        enforce_retention=verb != "vacuum",
        payback_queries=1e12,
    )
    return MaintainedTable("t", open_store(path), policy)


def run(path: Path, verb: Verb, step: int, steps: Any = None) -> None:
    """Maintain the table, and die before a step on its files; -1: count the steps into ``steps``."""
    left = step
    counted = 0

    def before(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left, counted
        if event in STEPS and any(str(argument).startswith(str(path)) for argument in arguments[:2]):
            counted += 1
            left -= 1
            if left == -1:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(before)
    entries = maintain([table_of(path, verb)], Budget(), ArrowEngine)
    assert [entry.status for entry in entries] == ["done"], entries
    if steps is not None:
        steps.value = counted


def in_a_process(*arguments: Any) -> int | None:
    process = context().Process(target=run, args=arguments)
    process.start()
    process.join(120)
    return process.exitcode


def rows(path: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize("verb", TABLES)
def test_the_next_run_finishes_a_killed_run(tmp_path: Path, verb: Verb) -> None:
    TABLES[verb](tmp_path / "made")
    before = rows(tmp_path / "made")
    shutil.copytree(tmp_path / "made", tmp_path / "counted")
    steps = context().Value("i", 0)
    assert in_a_process(tmp_path / "counted", verb, -2, steps) == 0
    assert steps.value > 5
    killed = 0
    for step in np.unique(np.linspace(0, steps.value - 1, _KILLS).astype(int)).tolist():
        table = tmp_path / f"t{step}"
        shutil.copytree(tmp_path / "made", table, copy_function=shutil.copy2)
        killed += in_a_process(table, verb, step) == -signal.SIGKILL
        assert rows(table) == before  # no reader sees half of it
        entries = maintain([table_of(table, verb)], Budget(), ArrowEngine)
        assert {entry.status for entry in entries} <= {"done"}, (step, entries)
        assert plan_fleet([table_of(table, verb)], Budget()).plan.steps == (), step
        assert rows(table) == before
        rewrites = [commit for commit in DeltaTable(table).history() if commit["operation"] == "OPTIMIZE"]
        assert len(rewrites) == (verb in ("optimize", "z_order", "vacuum")), step  # nothing is rewritten twice
        shutil.rmtree(table)
    assert killed >= _KILLS // 2


def test_a_run_after_a_killed_one_waits_for_the_end_of_its_lease(tmp_path: Path) -> None:
    small_files(tmp_path / "t")
    record = RunRecord(str(tmp_path / "records"))
    process = context().Process(target=_hold, args=(tmp_path,))
    process.start()
    while not list((tmp_path / "records").rglob("*.json")):
        time.sleep(0.05)
    process.kill()
    process.join()
    (entry,) = maintain([table_of(tmp_path / "t", "optimize")], Budget(), ArrowEngine, record)
    assert entry.error_code == "DELTA_MAINTENANCE_IN_PROGRESS"
    time.sleep(3)
    assert [
        each.status for each in maintain([table_of(tmp_path / "t", "optimize")], Budget(), ArrowEngine, record)
    ] == ["done"]


def _hold(folder: Path) -> None:
    from lakehouse_lib.fleet.lease import lease

    with lease(open_store(folder / "records"), open_store(folder / "t").root, "a killed run", seconds=3):
        time.sleep(60)


def test_rows_of_another_writer_survive_a_killed_z_order(tmp_path: Path) -> None:
    small_files(tmp_path / "t")
    assert in_a_process(tmp_path / "t", "z_order", 20) == -signal.SIGKILL
    write_deltalake(tmp_path / "t", pa.table({"id": pa.array([1000], pa.int64()), "text": ["new"]}), mode="append")
    maintain([table_of(tmp_path / "t", "z_order")], Budget(), ArrowEngine)
    assert rows(tmp_path / "t") == [*range(600), 1000]
