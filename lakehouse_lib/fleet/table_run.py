"""Maintain one table: carry out a work order, then the upkeep that is due after its commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.lease import lease
from lakehouse_lib.fleet.planner.candidates import steps_of
from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.plan import part_reading
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import Effect, Step
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.fleet.runs import RunRecord, StepRecord
from lakehouse_lib.fleet.step_run import run_step
from lakehouse_lib.fleet.work_order import WorkOrder
from lakehouse_lib.log import clock, latest_version
from lakehouse_lib.progress import OnProgress
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import ObjectStore, open_store

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry import Table

logger = logging.getLogger(__name__)

#: The verbs that a rewrite may make due, because it commits and removes files.
_UPKEEP: tuple[Verb, ...] = ("checkpoint", "vacuum", "cleanup")


@dataclass(frozen=True)
class MaintainedTable:
    """A table of a fleet.

    Attributes:
        name: its name in the registry, or its location.
    """

    name: str
    store: ObjectStore
    policy: Policy = field(default_factory=Policy)

    @classmethod
    def of(cls, name: str, table: Table, storage_options: Mapping[str, str] | None = None) -> MaintainedTable:
        """A table of the registry, with the policy that the registry gives it."""
        return cls(name, open_store(table.uri, dict(storage_options or {})), table.policy())


def maintain_table(
    order: WorkOrder,
    table: MaintainedTable,
    engine: Callable[[], Engine],
    record: RunRecord | None = None,
    *,
    corrections: Corrections | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
    observer: Callable[[Step], OnProgress | None] | None = None,
) -> list[StepRecord]:
    """Carry out a work order on the latest version of its table, and record each step.

    The steps are planned again, because the table may have changed. After another step, or a commit of another writer,
    the next step is planned once more. So its prediction does not include their effect. Steps that are not due then are
    left out. If a step has made a commit, ``checkpoint``, ``vacuum`` and ``cleanup`` are run at the end, too, if they
    are due and permitted by the policy. Those that were due before, and are not in the order, are not run: the plan has
    deferred them. After a failed step, the run continues.

    Args:
        engine: makes the engine; called before the first step that reads data files.
        record: the record to which the steps are written, and which has the lease of the table; None: the steps are not
            recorded, and no lease is taken.
        corrections: the corrections of predictions by earlier runs; None: they are computed from the record.
        on_step: called with the record of each step that was run.
        observer: makes the observer of a step's progress, when the step begins.

    Returns:
        The records of the steps that were run or have failed, in order. If the table cannot be opened, or if another
        run maintains it (``DELTA_MAINTENANCE_IN_PROGRESS``), the only record is a failed step with the verb ``plan``.
    """
    entries: list[StepRecord] = []

    def note(entry: StepRecord) -> None:
        entries.append(entry)
        append(record, [entry])
        if on_step is not None:
            on_step(entry)

    before_deletion = None if record is None else record.deleted_files.writer(order.table, order.run)

    def run(steps: Sequence[Step], limits: Mapping[Verb, int | None], corrections: Corrections) -> None:
        planned_after = len(entries)
        for planned in steps:
            is_current = len(entries) == planned_after and _is_current(planned, table)
            step = planned if is_current else _again(planned, limits.get(planned.verb), table, corrections)
            if step is not None:
                entry = step_record(order.run, order.planned_at, step)
                on_progress = None if observer is None else observer(step)
                note(run_step(entry, step, table.store, engine, before_deletion, on_progress))

    with ExitStack() as stack:
        try:
            if record is not None:
                stack.enter_context(lease(record.records, table.store.root, order.run))
            if corrections is None:
                corrections = Corrections([] if record is None else record.finished(clock.now()))
            steps, deferred = _due_steps(order, table, corrections)
        except DeltaError as error:
            note(failed_plan(order.run, order.planned_at, table.name, error))
            return entries
        run(steps, order.limits, corrections)
        if any(entry.version is not None for entry in entries):
            run(_upkeep(table, corrections, deferred), {}, corrections)
    return entries


def step_record(run: str, planned_at: int, step: Step) -> StepRecord:
    """The record of a step that has not been run."""
    return StepRecord(
        run,
        step.table,
        step.verb,
        "deferred",
        step.reason,
        planned_at,
        step.read_version,
        step.cost,
        step.uncorrected or step.predicted,
        step.predicted,
    )


def failed_plan(run: str, planned_at: int, table: str, error: DeltaError) -> StepRecord:
    """The record of a table that could not be planned."""
    return StepRecord(
        run,
        table,
        "plan",
        "failed",
        "the table cannot be planned",
        planned_at,
        -1,
        0,
        Effect(),
        Effect(),
        finished_at=clock.now(),
        error_type=type(error).__name__,
        error_code=error.code,
        error=error.description,
    )


def append(record: RunRecord | None, entries: Sequence[StepRecord]) -> None:
    """Write entries to the record. If the record cannot be written, a warning is logged, and maintenance continues."""
    if record is None:
        return
    try:
        record.append(entries)
    except DeltaError as error:
        logger.warning("%d steps are not recorded: %s", len(entries), error)


def _due_steps(
    order: WorkOrder, table: MaintainedTable, corrections: Corrections
) -> tuple[list[Step], frozenset[Verb]]:
    """The steps of the order that are still due, within its limits, and the verbs of upkeep that the order defers."""
    due = _steps(table, corrections, {*order.limits, *_UPKEEP})
    parts = [_within(step, order.limits[step.verb]) for step in due if step.verb in order.limits]
    deferred = frozenset(step.verb for step in due if step.verb not in order.limits)
    return [part for part in parts if part is not None], deferred


def _is_current(step: Step, table: MaintainedTable) -> bool:
    """Whether the step was planned from the latest version."""
    try:
        return latest_version(table.store) == step.read_version
    except DeltaError:
        return False


def _again(step: Step, limit: int | None, table: MaintainedTable, corrections: Corrections) -> Step | None:
    """The step as planned from the latest version; None: it is not due. If planning fails, the step stays."""
    try:
        return next((_within(due, limit) for due in _steps(table, corrections, {step.verb})), None)
    except DeltaError:
        return step  # it fails, too, and its record has the error


def _within(step: Step, limit: int | None) -> Step | None:
    """The parts of a step for which at most ``limit`` bytes are read; None: no part is within the limit."""
    return step if limit is None or not step.bytes else part_reading(step, limit)


def _steps(table: MaintainedTable, corrections: Corrections, verbs: Collection[Verb]) -> list[Step]:
    """The steps with these verbs that the policy permits, planned from the latest version."""
    policy = replace(table.policy, verbs=tuple(verb for verb in table.policy.verbs if verb in verbs))
    return steps_of(table.name, load_snapshot(table.store), policy, corrections)


def _upkeep(table: MaintainedTable, corrections: Corrections, deferred: Collection[Verb]) -> list[Step]:
    try:
        return _steps(table, corrections, {*_UPKEEP} - {*deferred})
    except DeltaError as error:
        logger.warning("%s: the upkeep after the run is left for the next run: %s", table.name, error)
        return []
