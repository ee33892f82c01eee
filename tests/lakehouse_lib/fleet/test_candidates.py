"""The steps that a table needs, by a small budget, by its size and by the time since its last vacuum."""

from __future__ import annotations

import os
import re
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable
from lakehouse_lib.fleet.maintenance import maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.correction import Corrections, Run
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import Effect, Step
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.store import open_store


def shuffled(root: Path, files: int = 9, rows: int = 500) -> Path:
    """A table of small files, each with ids of the whole range."""
    for number in range(files):
        ids = pa.array(range(number, files * rows, files), pa.int64())
        deltalake.write_deltalake(root, pa.table({"id": ids}), mode="append")
    return root


def test_small_files_are_merged_if_a_z_order_exceeds_the_whole_budget(tmp_path: Path) -> None:
    verbs: tuple[Verb, ...] = ("optimize", "z_order")
    policy = Policy(verbs, cluster_by=("id",), target_file_size=12_000)
    table = MaintainedTable("t", open_store(shuffled(tmp_path / "t")), policy)
    (z_order,) = plan_fleet([table], Budget()).plan.steps
    assert z_order.verb == "z_order"
    budget = Budget(bytes=z_order.bytes // 2)
    plan = plan_fleet([table], budget).plan
    assert [step.verb for step in plan.steps] == ["optimize"]
    assert {step.verb for step in plan.deferred} == {"z_order", "optimize"}
    assert "the budget is too small for z_order" in plan.steps[0].reason
    (entry,) = maintain([table], budget, ArrowEngine)
    assert (entry.verb, entry.status) == ("optimize", "done")
    assert len(DeltaTable(tmp_path / "t").file_uris()) < 9


def test_files_that_are_appended_during_a_z_order_do_not_change_its_measured_effect(tmp_path: Path) -> None:
    """Before, the measured gain was negative, and the next Z-order was predicted to gain nothing."""

    def gain(name: str, appends: int) -> int:
        def engine() -> ArrowEngine:
            shuffled(tmp_path / name, appends)
            return ArrowEngine()

        policy = Policy(("z_order",), cluster_by=("id",), target_file_size=12_000)
        table = MaintainedTable("t", open_store(shuffled(tmp_path / name)), policy)
        (entry,) = maintain([table], Budget(), engine)
        assert entry.measured is not None
        return entry.measured.query_bytes

    quiet = gain("quiet", 0)
    assert quiet > 0
    assert gain("busy", 20) == pytest.approx(quiet, rel=0.01)


def test_a_step_that_has_gained_nothing_is_not_switched_off() -> None:
    predicted, measured = Effect(bytes_read=1, query_bytes=100), Effect(bytes_read=1, query_bytes=-5, seconds=1.0)
    corrections = Corrections([Run("t", "z_order", predicted, predicted, measured)])
    step = corrections.corrected(Step("t", "z_order", 0, {}, "", predicted))
    assert step.predicted.query_bytes == 10


def age(root: Path, days: float) -> None:
    """Move the modification times of all files of a table into the past."""
    for path in root.rglob("*"):
        moment = path.stat().st_mtime - days * 86_400
        os.utime(path, (moment, moment))


def test_files_of_killed_writers_in_an_append_only_table_are_deleted_every_month(tmp_path: Path) -> None:
    """Before, a vacuum was planned only after a commit that removed files, so these files stayed forever."""
    root = shuffled(tmp_path / "t", 2)
    table = MaintainedTable("t", open_store(root), Policy(("vacuum",)))

    def vacuums() -> int:
        (root / "part-killed.parquet").write_bytes(b"PAR1")
        age(root, 15)
        count = len(maintain([table], Budget(), ArrowEngine))
        assert (root / "part-killed.parquet").exists() == (count == 0)
        return count

    assert (vacuums(), vacuums()) == (1, 0)
    age(root, 15)
    assert vacuums() == 0  # the table has no commits since the last vacuum
    shuffled(root, 1)
    assert (vacuums(), vacuums()) == (1, 0)


def test_a_plan_names_the_partitions_of_the_chosen_parts(tmp_path: Path) -> None:
    rows = pa.table({"id": range(50), "day": [number % 5 for number in range(50)]})
    for _ in range(2):
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["day"])
    table = MaintainedTable("t", open_store(tmp_path / "t"), Policy(("optimize",)))
    (whole,) = plan_fleet([table], Budget()).plan.steps
    assert whole.partitions is not None
    assert re.fullmatch(r"5 partitions: day=\d, day=\d, day=\d and 2 more", whole.partitions.text)
    assert whole.parts is not None
    (part,) = plan_fleet([table], Budget(bytes=int(2.5 * whole.bytes / 5))).plan.steps
    named = part.to_dict()["partitions"]
    assert (named["count"], len(named["first"]), list(named["first"][0])) == (2, 2, ["day"])
