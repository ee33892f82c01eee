"""A maintenance run: reads the logs of a fleet's tables, plans within a budget, runs the steps, records the effects."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, TableNotFoundError
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.candidates import steps_of
from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.plan import Candidate, Plan, choose
from lakehouse_lib.fleet.planner.step import Step
from lakehouse_lib.fleet.planner.verbs import VERBS
from lakehouse_lib.fleet.runs import RunRecord, StepRecord
from lakehouse_lib.fleet.table_run import MaintainedTable, append, maintain_table, step_record
from lakehouse_lib.fleet.work_order import WorkOrder, orders_of
from lakehouse_lib.log import clock
from lakehouse_lib.progress import OnProgress
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.threads import map_in_threads

_LOOKS_AT_ONCE = 8


@dataclass(frozen=True)
class FleetPlan:
    """The plan for a fleet.

    Attributes:
        run: the id of the maintenance run.
        planned_at: ms since the epoch.
        plan: the steps to run, and the steps that wait.
        errors: table -> the error that prevented its plan.
    """

    run: str
    planned_at: int
    plan: Plan
    errors: Mapping[str, DeltaError] = field(default_factory=dict)

    def orders(self) -> list[WorkOrder]:
        """The work orders of the plan, one for each table that has steps, the table with the first step first.

        The order of a table that could not be planned has a limit of 0 bytes for each verb. The order fails with the
        same error. If the error was temporary, the order runs the steps without predicted bytes, such as ``vacuum``.
        """
        failed = [WorkOrder(self.run, self.planned_at, name, dict.fromkeys(VERBS, 0)) for name in self.errors]
        return [*orders_of(self.run, self.planned_at, self.plan.steps), *failed]

    def deferred(self) -> list[StepRecord]:
        """The records of the steps that wait."""
        return [step_record(self.run, self.planned_at, step) for step in self.plan.deferred]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "run": self.run,
            "planned_at": self.planned_at,
            "steps": [step.to_dict() for step in self.plan.steps],
            "deferred": [step.to_dict() for step in self.plan.deferred],
            "errors": {name: {"code": error.code, "message": str(error)} for name, error in self.errors.items()},
        }


def plan_fleet(
    tables: Sequence[MaintainedTable],
    budget: Budget,
    record: RunRecord | None = None,
    *,
    skip_missing: bool = False,
) -> FleetPlan:
    """Plan a maintenance run. Reads logs only; a table that fails has no steps, and its error is in the plan.

    Args:
        record: the record of earlier runs. Their measurements correct the predictions, and the steps that they deferred
            are preferred. None: no runs.
        skip_missing: leave out tables that do not exist; False: they are errors.

    Raises:
        InvalidArgumentError: the budget is too small for any step.
    """
    now = clock.now()
    corrections = Corrections([] if record is None else record.finished(now))
    waiting = {} if record is None else record.waiting(now)

    def look(table: MaintainedTable) -> list[Step] | DeltaError:
        try:
            return steps_of(table.name, load_snapshot(table.store), table.policy, corrections, budget=budget, now=now)
        except DeltaError as error:
            return [] if skip_missing and isinstance(error, TableNotFoundError) else error

    candidates: list[Candidate] = []
    errors: dict[str, DeltaError] = {}
    for table, steps in zip(
        tables, map_in_threads(look, tables, _LOOKS_AT_ONCE, ahead=2 * _LOOKS_AT_ONCE), strict=True
    ):
        if isinstance(steps, DeltaError):
            errors[table.name] = steps
            continue
        candidates += [Candidate(step, table.policy.priority, waiting.get((step.table, step.verb))) for step in steps]
    return FleetPlan(uuid.uuid4().hex, now, choose(candidates, budget, now), errors)


def maintain(
    tables: Sequence[MaintainedTable],
    budget: Budget,
    engine: Callable[[], Engine],
    record: RunRecord | None = None,
    *,
    on_plan: Callable[[FleetPlan], None] | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
    observer: Callable[[Step], OnProgress | None] | None = None,
) -> list[StepRecord]:
    """Plan a maintenance run, run its steps, and record each step. After a failed step, the run continues.

    Args:
        engine: makes the engine. It is called once, before the first step that reads data files, so that a run with
            nothing to do starts no Spark.
        record: the record to which the steps are written; None: the steps are not recorded.
        on_plan: called with the plan, before its first step.
        on_step: called with the record of each step that was run.
        observer: makes the observer of a step's progress, when the step begins.

    Returns:
        The records of the steps that were run or have failed, in order. A table that could not be planned has a failed
        step with the verb ``plan``.

    Raises:
        InvalidArgumentError: the budget is too small for any step.
    """
    fleet = plan_fleet(tables, budget, record)
    if on_plan is not None:
        on_plan(fleet)
    append(record, fleet.deferred())
    return carry_out(
        fleet.orders(),
        tables,
        engine,
        record,
        on_step=on_step,
        observer=observer,
    )


def carry_out(
    orders: Sequence[WorkOrder],
    tables: Sequence[MaintainedTable],
    engine: Callable[[], Engine],
    record: RunRecord | None = None,
    *,
    on_step: Callable[[StepRecord], None] | None = None,
    observer: Callable[[Step], OnProgress | None] | None = None,
) -> list[StepRecord]:
    """Carry out the work orders of a plan, one table after the other; see ``maintain_table``.

    Args:
        tables: at least the tables of the orders.
        engine: makes the engine. It is called once, before the first step that reads data files.

    Returns:
        The records of the steps, in order.
    """
    by_name = {table.name: table for table in tables}
    engines: list[Engine] = []

    def the_engine() -> Engine:
        if not engines:
            engines.append(engine())
        return engines[0]

    corrections = Corrections([] if record is None or not orders else record.finished(clock.now()))
    return [
        entry
        for order in orders
        for entry in maintain_table(
            order,
            by_name[order.table],
            the_engine,
            record,
            corrections=corrections,
            on_step=on_step,
            observer=observer,
        )
    ]
