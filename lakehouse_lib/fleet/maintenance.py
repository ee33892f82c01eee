"""A maintenance run: look at the tables of a fleet, plan within a budget, run the steps, record what they gained."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.candidates import steps_of
from lakehouse_lib.fleet.planner.correction import Corrections
from lakehouse_lib.fleet.planner.plan import Candidate, Plan, choose
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.query_cost import query_cost
from lakehouse_lib.fleet.planner.step import OPEN_BYTES, Effect, Step
from lakehouse_lib.fleet.runs import RunRecord, Status, StepRecord
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.segment import sort_listing
from lakehouse_lib.operations.results import ChangeResult, CleanupResult, OperationResult
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import ObjectStore, open_store
from lakehouse_lib.threads import in_order
from lakehouse_lib.transaction.commit_properties import CommitProperties

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry import Table

logger = logging.getLogger(__name__)

_LOOKS_AT_ONCE = 8


@dataclass(frozen=True)
class MaintainedTable:
    """A table of the fleet.

    Attributes:
        name: its name in the registry, or its location.
    """

    name: str
    store: ObjectStore
    policy: Policy = field(default_factory=Policy)

    @classmethod
    def of(cls, name: str, table: Table, storage_options: Mapping[str, str] | None = None) -> MaintainedTable:
        """A table of the registry, with the policy that the registry gives it."""
        policy = Policy(
            cluster_by=table.cluster_by,
            target_file_size=table.target_file_size,
            retention_hours=table.vacuum.retention_hours,
            enforce_retention=table.vacuum.enforce_retention,
        )
        return cls(name, open_store(table.uri, dict(storage_options or {})), policy)


@dataclass(frozen=True)
class FleetPlan:
    """The plan for a fleet.

    Attributes:
        run: the id of the maintenance run.
        planned_at: ms since the epoch.
        plan: the steps to run, and those that wait.
        errors: by table, the error because of which it has no steps.
    """

    run: str
    planned_at: int
    plan: Plan
    errors: Mapping[str, DeltaError] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "run": self.run,
            "planned_at": self.planned_at,
            "steps": [step.to_dict() for step in self.plan.steps],
            "deferred": [step.to_dict() for step in self.plan.deferred],
            "errors": {name: {"code": error.code, "message": str(error)} for name, error in self.errors.items()},
        }


def plan_fleet(tables: Sequence[MaintainedTable], budget: Budget, record: RunRecord | None = None) -> FleetPlan:
    """Plan a maintenance run. Reads logs only; a table that fails has no steps, and its error is in the plan.

    Args:
        record: earlier runs, by which predictions are corrected and waiting steps are preferred; None: there are none.

    Raises:
        InvalidArgumentError: the budget is too small for any step.
    """
    now = clock.now()
    corrections = Corrections([] if record is None else record.finished(now))
    waiting = {} if record is None else record.waiting(now)

    def look(table: MaintainedTable) -> list[Step] | DeltaError:
        try:
            return steps_of(table.name, load_snapshot(table.store), table.policy, corrections, now=now)
        except DeltaError as error:
            return error

    candidates: list[Candidate] = []
    errors: dict[str, DeltaError] = {}
    for table, steps in zip(tables, in_order(look, tables, _LOOKS_AT_ONCE, ahead=2 * _LOOKS_AT_ONCE), strict=True):
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
    commit_properties: CommitProperties | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
) -> list[StepRecord]:
    """Plan a maintenance run, run its steps, and record each. A step that fails does not stop the others.

    Args:
        engine: makes the engine. It is called when the first step that moves bytes begins, so that a run with nothing
            to do starts no Spark.
        record: where the steps are recorded; None: nowhere.
        on_step: called with the record of each step that was run.

    Returns:
        The steps that were run or have failed, in order; tables that could not be planned have a failed step without
        effect and the verb ``plan``.

    Raises:
        InvalidArgumentError: the budget is too small for any step.
    """
    fleet = plan_fleet(tables, budget, record)
    by_name = {table.name: table for table in tables}
    engines: list[Engine] = []

    def the_engine() -> Engine:
        if not engines:
            engines.append(engine())
        return engines[0]

    entries = [_failed_look(fleet, name, error) for name, error in fleet.errors.items()]
    for step in fleet.plan.steps:
        entry = run_step(fleet, step, by_name[step.table], the_engine, commit_properties)
        entries.append(entry)
        if record is not None:
            _append(record, [entry])
        if on_step is not None:
            on_step(entry)
    if record is not None:
        _append(
            record, [*entries[: len(fleet.errors)], *(_entry(fleet, step, "deferred") for step in fleet.plan.deferred)]
        )
    return entries


def run_step(
    fleet: FleetPlan,
    step: Step,
    table: MaintainedTable,
    engine: Callable[[], Engine],
    commit_properties: CommitProperties | None = None,
) -> StepRecord:
    """Run a step of a plan on the latest version of its table, and measure its effect. An error is in the record."""
    started = time.monotonic()
    try:
        result, effect = _run(step, table, engine, commit_properties)
    except DeltaError as error:
        logger.warning("%s of %s failed: %s", step.verb, step.table, error)
        return replace(
            _entry(fleet, step, "failed"), finished_at=clock.now(), error_code=error.code, error=error.description
        )
    measured = replace(effect, seconds=time.monotonic() - started)
    return replace(_entry(fleet, step, "done"), finished_at=clock.now(), version=result.version, measured=measured)


def _run(
    step: Step, table: MaintainedTable, engine: Callable[[], Engine], properties: CommitProperties | None
) -> tuple[OperationResult, Effect]:
    snapshot = load_snapshot(table.store)
    result: Any
    if step.verb == "optimize":
        from lakehouse_lib.operations.optimize.compact import compact

        result = compact(snapshot, engine(), **step.arguments, commit_properties=properties)
        return result, _rewritten(result.metrics)
    if step.verb == "z_order":
        from lakehouse_lib.operations.optimize.z_order.z_order import z_order

        result = z_order(snapshot, engine(), **step.arguments, commit_properties=properties)
        return result, _z_ordered(table.store, result, step.arguments["columns"])
    if step.verb == "compute_statistics":
        from lakehouse_lib.operations.optimize.statistics import compute_statistics

        result = compute_statistics(snapshot, engine(), commit_properties=properties)
        updated = int(result.metrics["numUpdatedFiles"])
        share = updated / max(step.predicted.files_removed, 1)
        saved = int(step.predicted.query_bytes * share)
        return result, Effect(files_removed=updated, files_added=updated, query_bytes=saved)
    if step.verb == "checkpoint":
        from lakehouse_lib.operations.checkpoint import checkpoint

        result = checkpoint(snapshot)
        return result, _checkpointed(table.store, result.read_version, step.predicted)
    if step.verb == "vacuum":
        from lakehouse_lib.operations.vacuum import vacuum

        result = vacuum(snapshot, dry_run=False, **step.arguments, commit_properties=properties)
        return result, Effect(
            files_removed=int(result.metrics["numDeletedFiles"]), bytes_freed=int(result.metrics["sizeOfDataToDelete"])
        )
    from lakehouse_lib.operations.cleanup import cleanup

    sizes = {meta.path: meta.size for meta in table.store.list_from(file_names.LOG)}
    cleaned: CleanupResult = cleanup(snapshot, dry_run=False)
    freed = sum(sizes.get(path, 0) for path in cleaned.files)
    return cleaned, Effect(files_removed=len(cleaned.files), bytes_freed=freed)


def _rewritten(metrics: Mapping[str, Any]) -> Effect:
    removed, added = int(metrics["numRemovedFiles"]), int(metrics["numAddedFiles"])
    read, written = int(metrics["numRemovedBytes"]), int(metrics["numAddedBytes"])
    return Effect(
        files_removed=removed,
        files_added=added,
        bytes_read=read,
        bytes_written=written,
        query_bytes=read - written + (removed - added) * OPEN_BYTES,
    )


def _z_ordered(store: ObjectStore, result: ChangeResult, columns: Sequence[str]) -> Effect:
    """The effect of a Z-order, whose query bytes are compared between its version and the version before it."""
    effect = _rewritten(result.metrics)
    if result.version is None:
        return replace(effect, query_bytes=0)
    before, after = (load_snapshot(store, version) for version in (result.version - 1, result.version))
    return replace(effect, query_bytes=query_cost(before, columns) - query_cost(after, columns))


def _checkpointed(store: ObjectStore, version: int | None, predicted: Effect) -> Effect:
    """The effect of a checkpoint, by the size of its files in the log."""
    number = 0 if version is None else version
    checkpoints, _, _ = sort_listing(list(store.list_from(file_names.LOG, file_names.first_name(number))))
    written = sum(part.size for checkpoint in checkpoints if checkpoint.version == number for part in checkpoint.parts)
    return replace(
        predicted, bytes_written=written, query_bytes=predicted.query_bytes + predicted.bytes_written - written
    )


def _entry(fleet: FleetPlan, step: Step, status: Status) -> StepRecord:
    return StepRecord(
        fleet.run,
        step.table,
        step.verb,
        status,
        step.reason,
        fleet.planned_at,
        step.read_version,
        step.cost,
        step.uncorrected or step.predicted,
        step.predicted,
    )


def _failed_look(fleet: FleetPlan, table: str, error: DeltaError) -> StepRecord:
    return StepRecord(
        fleet.run,
        table,
        "plan",
        "failed",
        "the table cannot be planned",
        fleet.planned_at,
        -1,
        0,
        Effect(),
        Effect(),
        finished_at=fleet.planned_at,
        error_code=error.code,
        error=error.description,
    )


def _append(record: RunRecord, entries: Sequence[StepRecord]) -> None:
    """Record entries. A record that cannot be written does not stop the maintenance."""
    try:
        record.append(entries)
    except DeltaError as error:
        logger.warning("%d steps are not recorded: %s", len(entries), error)
