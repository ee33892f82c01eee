"""Maintenance runs of a fleet: the plan, the steps, their record, and a second run that has nothing to do."""

from __future__ import annotations

import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.lease import lease
from lakehouse_lib.fleet.maintenance import MaintainedTable, maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.plan import Candidate, choose
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import Effect, Step
from lakehouse_lib.fleet.runs import RunRecord
from lakehouse_lib.store import open_store


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


def test_a_fleet_is_planned_maintained_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    tables = [
        table_of(made(tmp_path / "small")),
        table_of(made(tmp_path / "sorted"), cluster_by=("id",), target_file_size=8_000),
    ]
    before = [DeltaTable(table.store.root).to_pyarrow_table().sort_by("id") for table in tables]
    record = record_of(tmp_path)
    entries = maintain(tables, Budget(), ArrowEngine, record)
    assert {(entry.table, entry.verb): entry.status for entry in entries} == {
        ("small", "optimize"): "done",
        ("small", "checkpoint"): "done",
        ("sorted", "z_order"): "done",
        ("sorted", "checkpoint"): "done",
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
    assert DeltaTable(tmp_path / "records/runs").to_pyarrow_table().num_rows == 4


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


def test_a_budget_takes_parts_of_a_step_and_the_rest_waits(tmp_path: Path) -> None:
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


def test_a_budget_that_is_too_small_for_every_step_is_refused(tmp_path: Path) -> None:
    table = table_of(made(tmp_path / "t"), verbs=("optimize",))
    with pytest.raises(InvalidArgumentError, match="expected enough for one step, such as optimize of t") as refusal:
        plan_fleet([table], Budget(bytes=10))
    assert refusal.value.code == "DELTA_BUDGET_TOO_SMALL"
    with pytest.raises(InvalidArgumentError, match="the budget's seconds is 0"):
        Budget(seconds=0)


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


def test_only_one_run_holds_the_lease(tmp_path: Path) -> None:
    records = str(tmp_path / "records")
    with lease(records):
        with pytest.raises(InvalidArgumentError, match="another maintenance run") as refusal, lease(records):
            pass
        assert refusal.value.code == "DELTA_MAINTENANCE_IN_PROGRESS"
    with lease(records, seconds=-1), lease(records):  # the lease of the outer block is over
        pass


def test_a_waiting_step_gets_its_turn() -> None:
    large = Step("large", "optimize", 0, {}, "", Effect(bytes_read=100, bytes_written=100, query_bytes=10**9))
    small = Step("small", "optimize", 0, {}, "", Effect(bytes_read=100, bytes_written=100, query_bytes=10**7))
    budget = Budget(bytes=250)
    now = 100 * 86_400_000

    def chosen(days: float) -> list[str]:
        since = now - int(days * 86_400_000)
        return [step.table for step in choose([Candidate(large), Candidate(small, 1.0, since)], budget, now).steps]

    assert chosen(0) == chosen(19) == ["large"]
    assert chosen(21) == ["small"]  # 2 ** (21 / 3) is 128, more than the hundredfold gain
