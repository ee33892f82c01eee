"""The measured effect of a step is that of the step alone, without other steps of the run and other writers."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import AddAction, ArrowEngine, DeltaTable, create_table_with_add_actions
from lakehouse_lib.fleet.maintenance import maintain
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.candidates import steps_of
from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.step_run import run_step
from lakehouse_lib.fleet.table_run import MaintainedTable, step_record
from lakehouse_lib.store import open_store


def shuffled(root: Path, day: int, files: int = 9, rows: int = 500) -> Path:
    """Append small files to a partition, each with ids of the whole range."""
    for number in range(files):
        rows_of_day = pa.table({"id": range(number, files * rows, files), "day": [day] * rows})
        deltalake.write_deltalake(root, rows_of_day, mode="append", partition_by=["day"])
    return root


def table_of(root: Path, policy: Policy) -> MaintainedTable:
    return MaintainedTable(root.name, open_store(root), policy)


def test_files_that_another_writer_merges_do_not_change_the_gain_of_a_z_order(tmp_path: Path) -> None:
    """Before, all commits during the Z-order that change no rows counted as commits of the Z-order."""

    def gain(name: str, *, is_busy: bool) -> int:
        root = shuffled(shuffled(tmp_path / name, 1), 2, files=1)

        def engine() -> ArrowEngine:
            if is_busy:
                shuffled(root, 3)
                deltalake.DeltaTable(root).optimize.compact(partition_filters=[("day", "=", "3")])
            return ArrowEngine()

        policy = Policy(("z_order",), cluster_by=("id",), target_file_size=12_000)
        (entry,) = maintain([table_of(root, policy)], Budget(), engine)
        assert entry.measured is not None
        return entry.measured.query_bytes

    assert gain("busy", is_busy=True) == pytest.approx(gain("quiet", is_busy=False), rel=0.01)


def test_a_vacuum_is_predicted_with_the_files_that_the_run_has_removed(tmp_path: Path) -> None:
    """Before, the vacuum seemed to free many times as much as predicted, so the next was predicted to do so, too."""
    root = shuffled(tmp_path / "t", 1, files=2)
    DeltaTable(root).optimize.compact()
    shuffled(root, 1, files=8)
    policy = Policy(("optimize", "vacuum"), retention_hours=0, enforce_retention=False, payback_queries=1e9)
    optimize, vacuum = maintain([table_of(root, policy)], Budget(), ArrowEngine)
    assert (optimize.verb, vacuum.verb) == ("optimize", "vacuum")
    assert vacuum.measured is not None
    assert vacuum.predicted.files_removed == vacuum.measured.files_removed == 11
    assert vacuum.predicted.bytes_freed == vacuum.measured.bytes_freed


def test_a_cleanup_is_predicted_with_the_checkpoint_of_the_run(tmp_path: Path) -> None:
    """Before, the cleanup seemed to delete more than predicted, because the checkpoint before it is not a commit."""
    root = shuffled(tmp_path / "t", 1, files=10)
    deltalake.DeltaTable(root).create_checkpoint()
    shuffled(root, 1, files=14)
    for path in (root / "_delta_log").iterdir():
        os.utime(path, (time.time() - 40 * 86_400,) * 2)
    checkpoint, cleanup = maintain([table_of(root, Policy(("checkpoint", "cleanup")))], Budget(), ArrowEngine)
    assert (checkpoint.verb, cleanup.verb) == ("checkpoint", "cleanup")
    assert cleanup.measured is not None
    assert cleanup.predicted.files_removed == cleanup.measured.files_removed > 20


def test_statistics_that_a_compaction_has_added_are_not_those_of_the_next_step(tmp_path: Path) -> None:
    """Before, the step was run without files, so the next one was predicted to gain a tenth."""
    root = tmp_path / "t"
    root.mkdir()
    rows = pa.table({"id": range(10)})
    for number in range(9):
        pq.write_table(rows, root / f"{number}.parquet")
    actions = [AddAction(path.name, path.stat().st_size, {}, 1, True, "") for path in root.glob("*.parquet")]
    create_table_with_add_actions(root, DeltaTable.create(tmp_path / "like", rows.schema).schema(), actions)
    table = table_of(root, Policy(("optimize", "compute_statistics"), payback_queries=1e9))
    due = steps_of("t", DeltaTable(root).snapshot, table.policy, Corrections([]))
    assert [step.verb for step in due] == ["optimize", "compute_statistics"]
    (entry,) = maintain([table], Budget(), ArrowEngine)
    assert entry.verb == "optimize"


def test_corrections_do_not_change_what_is_measured(tmp_path: Path) -> None:
    """Before, the measured gain of a checkpoint was computed from the corrected prediction."""
    root = shuffled(tmp_path / "t", 1, files=4)
    DeltaTable(root).alter.set_table_properties({"delta.checkpointInterval": "2"})
    table = table_of(root, Policy(("checkpoint",)))
    (step,) = steps_of("t", DeltaTable(root).snapshot, table.policy, Corrections([]))
    corrected = replace(step, predicted=step.predicted.scaled({"query_bytes": 0.1}))
    entries = [run_step(step_record("0" * 32, 0, each), each, table.store, ArrowEngine) for each in (step, corrected)]
    first, second = (entry.measured for entry in entries)
    assert first is not None
    assert second is not None
    assert first.query_bytes == second.query_bytes > 0


def test_the_start_of_the_engine_is_not_a_part_of_the_duration(tmp_path: Path) -> None:
    """Before, the first step of a run seemed slow, because Spark started meanwhile."""

    def engine() -> ArrowEngine:
        time.sleep(2)
        return ArrowEngine()

    table = table_of(shuffled(tmp_path / "t", 1), Policy(("optimize",)))
    (entry,) = maintain([table], Budget(), engine)
    assert entry.measured is not None
    assert entry.measured.seconds < 2
