"""The steps that a table needs, by a small budget, by its size and by the time since its last vacuum."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa

from lakehouse_lib import ArrowEngine, DeltaTable
from lakehouse_lib.fleet.maintenance import maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.policy import Policy
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
