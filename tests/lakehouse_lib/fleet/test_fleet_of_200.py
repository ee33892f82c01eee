"""A fleet of 200 tables with different problems: the plan beats simpler orders, and its predictions hold."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib.errors import TableNotFoundError
from lakehouse_lib.fleet.maintenance import FleetPlan, carry_out, maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.plan import Plan, part_within
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import Step
from lakehouse_lib.fleet.runs import RunRecord, StepRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.store import open_store

TABLES = 200
TARGET = 256 * 2**10
PROBLEMS = ("small files", "few files", "unsorted", "marked", "removed", "healthy")
#: The numbers that the predictions are judged by.
NUMBERS = ("files_removed", "files_added", "bytes_read", "bytes_written", "bytes_freed")


@dataclass(frozen=True)
class Member:
    """A table of the fleet: its problem, and the rows of an append."""

    name: str
    problem: str
    rows: int
    appends: int

    def maintained(self, root: Path) -> MaintainedTable:
        policy = Policy(
            cluster_by=("id",) if self.problem == "unsorted" else (),
            target_file_size=TARGET,
            retention_hours=0,
            enforce_retention=False,
        )
        return MaintainedTable(self.name, open_store(root / self.name), policy)


def fleet(seed: int) -> list[Member]:
    draw = random.Random(seed)
    return [
        Member(
            f"t{number:03d}",
            PROBLEMS[number % len(PROBLEMS)],
            int(draw.lognormvariate(6, 1.2)) + 20,
            draw.randint(3, 16),
        )
        for number in range(TABLES)
    ]


def change(root: Path, member: Member, draw: random.Random) -> None:
    """Write new rows into a table in the way that causes its problem; the first time also create it."""
    path = root / member.name
    appends = {"few files": 2, "healthy": 1}.get(member.problem, member.appends)
    marked = {"delta.enableDeletionVectors": "true"} if member.problem == "marked" else {}
    for _ in range(appends):
        ids = pa.array([draw.randrange(10**6) for _ in range(member.rows)], pa.int64())
        texts = pa.array([f"{draw.randrange(10**9):x}" for _ in range(member.rows)])
        write_deltalake(path, pa.table({"id": ids, "text": texts}), mode="append", configuration=marked)
    if member.problem == "marked":
        DeltaTable(path).delete(f"id < {draw.randrange(2 * 10**5, 10**6)}")
    if member.problem == "removed":
        DeltaTable(path).optimize.compact()


def build(root: Path, members: Iterable[Member]) -> None:
    for number, member in enumerate(members):
        change(root, member, random.Random(number))


def all_steps(tables: Sequence[MaintainedTable]) -> list[Step]:
    return list(plan_fleet(tables, Budget()).plan.steps)


def in_order(steps: Iterable[Step], most: int) -> Plan:
    """A plan of the same steps in a fixed order, each as far as the rest of the budget goes."""
    left, chosen, deferred = float(most), [], []
    for step in steps:
        part = part_within(step, left, float("inf"))
        if part is not step:
            deferred.append(step)
        if part is not None:
            chosen.append(part)
            left -= part.bytes
    return Plan(tuple(chosen), tuple(deferred))


def measured_gain(tables: Sequence[MaintainedTable], fleet_plan: FleetPlan, plan: Plan) -> float:
    orders = FleetPlan(fleet_plan.run, fleet_plan.planned_at, plan).orders()
    entries = carry_out(orders, tables, ArrowEngine)
    assert {entry.status for entry in entries} == {"done"}
    planned = {(step.table, step.verb) for step in plan.steps}
    return sum(entry.measured.gain for entry in entries if entry.measured and (entry.table, entry.verb) in planned)


@pytest.mark.slow
def test_the_plan_gains_more_than_round_robin_and_largest_first(tmp_path: Path) -> None:
    members = fleet(1)
    build(tmp_path / "fleet", members)
    tables = [member.maintained(tmp_path / "fleet") for member in members]
    steps = all_steps(tables)
    assert len({step.table for step in steps}) > TABLES / 2
    assert {step.verb for step in steps} >= {"optimize", "z_order", "vacuum"}
    budget = sum(step.bytes for step in steps) // 5
    sizes = {table.name: DeltaTable(table.store.root).detail()["sizeInBytes"] for table in tables}

    strategies: dict[str, Callable[[FleetPlan], Plan]] = {
        "ours": lambda plan: plan.plan,
        "round robin": lambda _: in_order(sorted(steps, key=lambda step: (step.table, step.verb)), budget),
        "largest first": lambda _: in_order(sorted(steps, key=lambda step: -sizes[step.table]), budget),
    }
    gains = {}
    for name, chosen in strategies.items():
        shutil.copytree(tmp_path / "fleet", tmp_path / name)
        copies = [member.maintained(tmp_path / name) for member in members]
        plan = plan_fleet(copies, Budget(bytes=budget))
        gains[name] = measured_gain(copies, plan, chosen(plan))
    print({name: f"{gain / 2**20:.0f} MiB" for name, gain in gains.items()})
    assert gains["ours"] > 1.1 * gains["round robin"]
    assert gains["ours"] > 1.1 * gains["largest first"]


@pytest.mark.slow
def test_predictions_improve_and_an_unchanged_fleet_gets_no_step(tmp_path: Path) -> None:
    members = fleet(2)[:36]
    record = RunRecord(str(tmp_path / "records"))
    tables = [member.maintained(tmp_path / "fleet") for member in members]
    errors: list[dict[str, float]] = []
    draw = random.Random(3)
    for _ in range(4):
        for member in members:
            change(tmp_path / "fleet", member, draw)
        entries = maintain(tables, Budget(), ArrowEngine, record)
        assert {entry.status for entry in entries} == {"done"}
        errors.append(error_of(entries))
        assert plan_fleet(tables, Budget(), record).plan.steps == ()
        versions = [DeltaTable(table.store.root).version() for table in tables]
        assert maintain(tables, Budget(), ArrowEngine, record) == []
        assert [DeltaTable(table.store.root).version() for table in tables] == versions
    print(errors)
    assert max(errors[1].values()) < 0.2
    assert max(errors[3].values()) < 0.1


def error_of(entries: Sequence[StepRecord]) -> dict[str, float]:
    """By number, the sum of the errors of all predictions, relative to the sum of what was measured."""
    pairs = [(entry.predicted, entry.measured) for entry in entries if entry.measured is not None]
    errors = {}
    for name in NUMBERS:
        total = sum(getattr(measured, name) for _, measured in pairs)
        wrong = sum(abs(getattr(predicted, name) - getattr(measured, name)) for predicted, measured in pairs)
        errors[name] = wrong / max(total, 1)
    return errors


def test_a_table_deleted_between_plan_and_run_is_a_separate_error(tmp_path: Path) -> None:
    members = [Member("gone", "small files", 100, 12), Member("stays", "small files", 100, 12)]
    build(tmp_path, members)
    tables = [member.maintained(tmp_path) for member in members]
    plan = plan_fleet(tables, Budget())
    shutil.rmtree(tmp_path / "gone")
    entries = carry_out(plan.orders(), tables, ArrowEngine)
    assert {(entry.table, entry.verb, entry.error_type) for entry in entries if entry.status == "failed"} == {
        ("gone", "plan", TableNotFoundError.__name__)
    }
    assert {entry.verb for entry in entries if entry.status == "done"} >= {"optimize"}
