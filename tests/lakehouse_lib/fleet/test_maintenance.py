"""Maintenance runs of a fleet: the plan, the steps, their record, and a second run that has nothing to do."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable
from lakehouse_lib.errors import InvalidArgumentError, StoreError
from lakehouse_lib.fleet import step_run
from lakehouse_lib.fleet.lease import _take, lease
from lakehouse_lib.fleet.maintenance import carry_out, maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import Effect
from lakehouse_lib.fleet.runs import RunRecord, StepRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.fleet.work_order import WorkOrder, shares
from lakehouse_lib.store import open_store
from tests.fault_store import FaultStore
from tests.slow_cases import some_slow


def made(root: Path, files: int = 20, rows: int = 500) -> Path:
    """A table that delta-rs has written, with one file for each append."""
    for number in range(files):
        ids = pa.array(range(number, files * rows, files), pa.int64())
        deltalake.write_deltalake(
            root, pa.table({"id": ids, "text": [str(each) for each in range(rows)]}), mode="append"
        )
    return root


def table_of(root: Path, **policy: object) -> MaintainedTable:
    return MaintainedTable(root.name, open_store(root), Policy(**policy))  # type: ignore[arg-type]


def record_of(root: Path) -> RunRecord:
    return RunRecord(str(root / "records"))


def test_a_maintained_fleet_has_nothing_to_do(tmp_path: Path) -> None:
    tables = [
        table_of(made(tmp_path / "small")),
        table_of(made(tmp_path / "sorted"), cluster_by=("id",), target_file_size=8_000),
    ]
    before = [DeltaTable(table.store.root).to_pyarrow_table().sort_by("id") for table in tables]
    record = record_of(tmp_path)
    entries = maintain(tables, Budget(), ArrowEngine, record)
    assert {(entry.table, entry.verb): entry.status for entry in entries} == {
        ("small", "optimize"): "done",  # whose commit has written the checkpoint that was planned, too
        ("sorted", "z_order"): "done",
    }
    after = [DeltaTable(table.store.root).to_pyarrow_table().sort_by("id") for table in tables]
    assert after == before
    small = next(entry for entry in entries if entry.verb == "optimize")
    assert small.measured is not None
    assert (small.predicted.files_removed, small.measured.files_removed, small.measured.files_added) == (20, 20, 1)
    assert small.measured.query_bytes > 19 * 4 * 2**20
    again = plan_fleet(tables, Budget(), record)
    assert (again.plan.steps, again.plan.deferred, again.errors) == ((), (), {})
    engines: list[object] = []
    assert maintain(tables, Budget(), lambda: engines.append(None) or ArrowEngine(), record) == []  # type: ignore[func-returns-value]
    assert engines == []
    assert DeltaTable(tmp_path / "records/runs").to_pyarrow_table().num_rows == 2


@pytest.mark.slow
def test_the_gain_of_a_z_order_in_several_commits_is_that_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, only the last commit was measured, so Z-orders of large tables seemed to gain little."""
    rows = pa.table({"id": [number * 7919 % 4_000 for number in range(4_000)], "day": [1, 2, 3, 4] * 1_000})
    for start in range(0, 4_000, 500):
        deltalake.write_deltalake(tmp_path / "t", rows.slice(start, 500), mode="append", partition_by=["day"])
    monkeypatch.setattr("lakehouse_lib.operations.optimize.commit_groups.GROUP_BYTES", 1)
    gains, commits = [], []
    for seconds in (600.0, 0.0):
        root = shutil.copytree(tmp_path / "t", tmp_path / f"t{seconds}")
        copy = table_of(root, cluster_by=("id",), target_file_size=4_000)
        monkeypatch.setattr(step_run, "_COMMIT_SECONDS", seconds)
        entries = maintain([copy], Budget(), ArrowEngine, record_of(tmp_path / f"r{seconds}"))
        gains += [entry.measured.query_bytes for entry in entries if entry.verb == "z_order" and entry.measured]
        commits.append(DeltaTable(root).version() - 7)
    assert (commits[0], commits[1] > 1) == (1, True)
    assert gains[0] == gains[1] > 0


@pytest.mark.slow
def test_small_files_in_the_order_of_a_column_are_merged_and_not_z_ordered(tmp_path: Path) -> None:
    root = tmp_path / "events"
    for first in range(0, 10_000, 500):
        deltalake.write_deltalake(root, pa.table({"id": range(first, first + 500)}), mode="append")
    tables, record = [table_of(root, cluster_by=("id",))], record_of(tmp_path)
    entries = maintain(tables, Budget(), ArrowEngine, record)
    assert [entry.verb for entry in entries] == ["optimize"]
    assert deltalake.DeltaTable(root).to_pyarrow_table().sort_by("id")["id"].to_pylist() == list(range(10_000))
    assert len(deltalake.DeltaTable(root).file_uris()) == 1
    assert plan_fleet(tables, Budget(), record).plan.steps == ()


def test_a_long_compaction_of_a_run_is_committed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse_lib.fleet.step_run._COMMIT_SECONDS", 0)
    monkeypatch.setattr("lakehouse_lib.operations.optimize.commit_groups.GROUP_BYTES", 1)
    rows = pa.table({"id": range(30), "part": [number % 3 for number in range(30)]})
    for _ in range(8):
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["part"])
    table = table_of(tmp_path / "t", verbs=("optimize",))
    (done,) = maintain([table], Budget(), lambda: ArrowEngine(parallelism=1), record_of(tmp_path))
    assert done.measured is not None
    assert (done.version, done.measured.files_removed, done.measured.files_added) == (10, 24, 3)
    assert [commit["operation"] for commit in deltalake.DeltaTable(tmp_path / "t").history(4)] == [
        *["OPTIMIZE"] * 3,
        "WRITE",
    ]


@pytest.mark.slow
def test_measured_effects_correct_the_next_predictions(tmp_path: Path) -> None:
    table, record = table_of(made(tmp_path / "t")), record_of(tmp_path)
    first = next(step for step in plan_fleet([table], Budget(), record).plan.steps if step.verb == "optimize")
    (done,) = [entry for entry in maintain([table], Budget(), ArrowEngine, record) if entry.verb == "optimize"]
    assert done.measured is not None
    ratio = done.measured.bytes_written / first.predicted.bytes_written
    assert ratio < 0.9  # one file compresses better than twenty
    made(tmp_path / "t")
    step = next(step for step in plan_fleet([table], Budget(), record).plan.steps if step.verb == "optimize")
    assert step.uncorrected is not None
    assert step.predicted.bytes_written == pytest.approx(step.uncorrected.bytes_written * ratio, rel=0.01)
    (done,) = [entry for entry in maintain([table], Budget(), ArrowEngine, record) if entry.verb == "optimize"]
    assert done.measured is not None
    assert done.predicted.bytes_written == pytest.approx(done.measured.bytes_written, rel=0.2)


def test_a_budget_selects_parts_of_a_step_and_the_rest_waits(tmp_path: Path) -> None:
    table = table_of(made(tmp_path / "t"), target_file_size=12_000, verbs=("optimize",))
    record = record_of(tmp_path)
    whole = plan_fleet([table], Budget(), record).plan.steps[0]
    assert whole.parts is not None
    assert len(whole.parts.bytes_read) > 2
    budget = Budget(bytes=whole.bytes // 2)
    plan = plan_fleet([table], budget, record).plan
    assert [step.verb for step in plan.deferred] == ["optimize"]
    (step,) = plan.steps
    assert 0 < step.bytes <= budget.bytes  # type: ignore[operator]
    (entry,) = maintain([table], budget, ArrowEngine, record)
    assert entry.measured is not None
    assert entry.measured.files_removed == step.predicted.files_removed < whole.predicted.files_removed
    waiting = record.waiting(int(time.time() * 1000))
    assert list(waiting) == [("t", "optimize")]


@pytest.mark.parametrize("parts", some_slow([1, 2], 1))
def test_a_run_rewrites_every_part_that_its_plan_has_chosen(tmp_path: Path, parts: int) -> None:
    table = table_of(made(tmp_path / "t"), target_file_size=12_000, verbs=("optimize",))
    record, now = record_of(tmp_path), int(time.time() * 1000)
    before, after = Effect(bytes_read=1000, bytes_written=1000), Effect(bytes_read=1000, bytes_written=827, seconds=1)
    record.append(
        [StepRecord("0" * 32, "t", "optimize", "done", "", now, 0, 0, before, before, after, finished_at=now)]
    )
    (whole,) = plan_fleet([table], Budget(), record).plan.steps
    assert whole.parts is not None
    budget = Budget(bytes=int(np.sort(whole.parts.bytes_read)[:parts].sum() * 1.827) + 1)
    (step,) = plan_fleet([table], budget, record).plan.steps
    assert f"; {parts} of {len(whole.parts.bytes_read)} parts" in step.reason
    (entry,) = maintain([table], budget, ArrowEngine, record)
    assert entry.measured is not None
    assert entry.measured.files_removed == step.predicted.files_removed


def test_a_budget_that_is_too_small_for_every_step_is_refused(tmp_path: Path) -> None:
    table = table_of(made(tmp_path / "t"), verbs=("optimize",))
    with pytest.raises(InvalidArgumentError, match="expected enough for one step, such as optimize of t") as refusal:
        plan_fleet([table], Budget(bytes=10))
    assert refusal.value.code == "DELTA_BUDGET_TOO_SMALL"
    with pytest.raises(InvalidArgumentError, match="the budget's seconds is 0"):
        Budget(seconds=0)


@pytest.mark.slow
def test_removed_files_are_vacuumed_once(tmp_path: Path) -> None:
    root = made(tmp_path / "t")
    DeltaTable(root).optimize.compact()
    table, record = table_of(root, verbs=("vacuum",)), record_of(tmp_path)
    assert plan_fleet([table], Budget(), record).plan.steps == ()  # the retention is a week
    own = {"verbs": ("vacuum",), "retention_hours": 0, "enforce_retention": False}
    assert plan_fleet([table_of(root, **own)], Budget(), record).plan.steps == ()  # some kilobytes do not pay
    table = table_of(root, **own, payback_queries=10_000)
    (step,) = plan_fleet([table], Budget(), record).plan.steps
    size = sum(path.stat().st_size for path in root.glob("*.parquet")) - DeltaTable(root).detail()["sizeInBytes"]
    assert (step.predicted.files_removed, step.predicted.bytes_freed) == (20, size)
    (entry,) = maintain([table], Budget(), ArrowEngine, record)
    assert entry.measured is not None
    assert (entry.measured.files_removed, entry.measured.bytes_freed) == (20, size)
    deleted = DeltaTable(tmp_path / "records/deleted_files").to_pyarrow_table()
    assert (set(deleted["run"].to_pylist()), set(deleted["table"].to_pylist())) == ({entry.run}, {"t"})
    assert (len(deleted), sum(deleted["size"].to_pylist())) == (20, size)
    assert plan_fleet([table], Budget(), record).plan.steps == ()


def test_a_table_that_cannot_be_planned_or_run_does_not_stop_the_others(tmp_path: Path) -> None:
    tables = [
        table_of(tmp_path / "none"),
        table_of(made(tmp_path / "bad"), cluster_by=("nothing",)),
        table_of(made(tmp_path / "good"), verbs=("optimize",)),
    ]
    entries = maintain(tables, Budget(), ArrowEngine, record_of(tmp_path))
    assert {(entry.table, entry.verb): (entry.status, entry.error_code) for entry in entries} == {
        ("none", "plan"): ("failed", "DELTA_TABLE_NOT_FOUND"),
        ("bad", "plan"): ("failed", "DELTA_COLUMN_NOT_FOUND"),
        ("good", "optimize"): ("done", None),
    }


@pytest.mark.slow
def test_one_process_maintains_a_table(tmp_path: Path) -> None:
    root, record = made(tmp_path / "t"), record_of(tmp_path)
    with lease(record.records, "elsewhere", "run"), lease(record.records, open_store(root).root, "run", seconds=0.3):
        time.sleep(0.5)  # the holder has renewed it
        (entry,) = maintain([table_of(root)], Budget(), ArrowEngine, record)
        assert (entry.table, entry.status, entry.error_code) == ("t", "failed", "DELTA_MAINTENANCE_IN_PROGRESS")
    assert {entry.status for entry in maintain([table_of(root)], Budget(), ArrowEngine, record)} == {"done"}


def test_the_lease_of_a_killed_process_ends(tmp_path: Path) -> None:
    records = open_store(tmp_path)
    _take(records, "t", "a process that is killed", 0.5)
    with pytest.raises(InvalidArgumentError, match="another maintenance run works"), lease(records, "t", "another"):
        pass
    time.sleep(0.6)
    with lease(records, "t", "another"):
        pass


def test_the_next_try_of_a_killed_run_does_not_wait_for_its_lease(tmp_path: Path) -> None:
    root, record = made(tmp_path / "t"), record_of(tmp_path)
    (order,) = plan_fleet([table_of(root)], Budget(), record).orders()
    _take(record.records, open_store(root).root, order.run, 600)  # the process was killed
    entries = carry_out([order], [table_of(root)], ArrowEngine, record)
    assert {entry.status for entry in entries} == {"done"}


@pytest.mark.slow
def test_a_step_without_a_measured_effect_is_recorded_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, record = table_of(made(tmp_path / "t"), cluster_by=("id",), target_file_size=8_000), record_of(tmp_path)

    def fail(*_: object) -> int:
        raise StoreError("the store does not answer")

    monkeypatch.setattr(step_run, "query_cost", fail)
    entries = maintain([table], Budget(), ArrowEngine, record)
    assert [(entry.verb, entry.status, entry.error) for entry in entries] == [("z_order", "done", None)]
    assert (entries[0].version, entries[0].measured) == (20, None)
    assert record.finished(int(time.time() * 1000)) == []
    assert plan_fleet([table], Budget(), record).plan.steps == ()


def test_a_rewrite_makes_its_own_upkeep_due(tmp_path: Path) -> None:
    own = {"retention_hours": 0, "enforce_retention": False, "payback_queries": 1e9}
    root = made(tmp_path / "t")
    entries = maintain([table_of(root, **own)], Budget(), ArrowEngine, record_of(tmp_path))
    assert [(entry.verb, entry.status) for entry in entries] == [("optimize", "done"), ("vacuum", "done")]
    assert len(list(root.glob("*.parquet"))) == 1


@pytest.mark.slow
def test_upkeep_that_the_plan_has_deferred_waits_for_the_next_run(tmp_path: Path) -> None:
    root = made(tmp_path / "t")
    DeltaTable(root).optimize.compact()
    made(root, files=3)
    own = {"retention_hours": 0, "enforce_retention": False, "payback_queries": 1e9}
    table = table_of(root, verbs=("optimize", "vacuum"), **own)
    (order,) = plan_fleet([table], Budget(), record_of(tmp_path)).orders()
    assert set(order.limits) == {"optimize", "vacuum"}
    order = replace(order, limits={"optimize": None})  # as if the budget had no place for the vacuum
    entries = carry_out([order], [table], ArrowEngine)
    assert [(entry.verb, entry.status) for entry in entries] == [("optimize", "done")]
    assert len(list(root.glob("*.parquet"))) > 20


def test_an_unavailable_store_gives_no_lease(tmp_path: Path) -> None:
    _take(open_store(tmp_path), "t", "a run", 600)

    def fail(_: str) -> None:
        raise StoreError("the store does not answer")

    with (
        pytest.raises(StoreError, match="does not answer"),
        lease(FaultStore(str(tmp_path), before={"read": fail}), "t", "another"),
    ):
        pass


def test_long_expired_files_are_deleted_even_without_a_gain(tmp_path: Path) -> None:
    root = made(tmp_path / "t", files=2)
    DeltaTable(root).optimize.compact()
    own = {"verbs": ("vacuum",), "retention_hours": 0, "enforce_retention": False, "full_vacuum": False}
    assert plan_fleet([table_of(root, **own)], Budget()).plan.steps == ()
    week = 8 * 86_400
    for commit in (root / "_delta_log").glob("*.json"):
        os.utime(commit, (time.time() - week,) * 2)
    (step,) = plan_fleet([table_of(root, **own)], Budget()).plan.steps
    assert (step.verb, step.predicted.files_removed) == ("vacuum", 2)
    os.utime(root / "_delta_log" / f"{2:020}.json")  # the commits before it have removed nothing
    assert plan_fleet([table_of(root, **own)], Budget()).plan.steps == ()


def test_files_that_a_pin_keeps_are_not_planned_for_vacuum(tmp_path: Path) -> None:
    root = made(tmp_path / "t", files=2)
    DeltaTable(root).pin("keep")
    DeltaTable(root).optimize.compact()
    for commit in (root / "_delta_log").glob("*.json"):
        os.utime(commit, (time.time() - 20 * 86_400,) * 2)
    table = table_of(root, verbs=("vacuum",), full_vacuum=False)
    assert plan_fleet([table], Budget()).plan.steps == ()
    DeltaTable(root).release("keep")
    (step,) = plan_fleet([table], Budget()).plan.steps
    assert step.predicted.files_removed == 2


def test_a_work_order_survives_json_and_an_edited_one_is_refused(tmp_path: Path) -> None:
    (order,) = plan_fleet([table_of(made(tmp_path / "t"))], Budget()).orders()
    values = json.loads(json.dumps(order.to_dict()))
    assert WorkOrder.of_dict(values) == order
    for edited in (
        {**values, "limits": {"erase": None}},
        {**values, "limits": {"vacuum": "0"}},
        {**values, "run": "../x"},
        {**values, "retention_hours": 0},
        {**values, "planned_at": -1},
        "x",
    ):
        with pytest.raises(InvalidArgumentError, match="the work order is"):
            WorkOrder.of_dict(edited)


def test_work_orders_are_distributed_by_their_bytes() -> None:
    orders = [WorkOrder("0" * 32, 0, str(size), {}, size) for size in (1, 7, 3, 4, 2)]
    assert sorted(sorted(order.bytes for order in share) for share in shares(orders, 2)) == [[1, 3, 4], [2, 7]]
    assert shares([], 2) == []
