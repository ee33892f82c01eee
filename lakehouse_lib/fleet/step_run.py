"""Run a step of maintenance, and measure its effect."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.planner.query_cost import query_cost
from lakehouse_lib.fleet.planner.step import OPEN_BYTES, Effect, Step
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.fleet.runs import StepRecord
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.segment import classify_log_files
from lakehouse_lib.operations.optimize.rewrite import Rewrite
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.progress import OnProgress
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore

logger = logging.getLogger(__name__)

#: The interval, in seconds, at which a long rewrite commits finished files, so that a killed run does not lose them.
_COMMIT_SECONDS = 600.0
#: The verbs that read data files.
_ON_ENGINE: tuple[Verb, ...] = ("optimize", "z_order", "compute_statistics")

#: A function that measures the effect of a finished step, without its duration.
Measure = Callable[[], Effect]


def run_step(
    entry: StepRecord,
    step: Step,
    store: ObjectStore,
    engine: Callable[[], Engine],
    before_deletion: Callable[[pa.Table], None] | None = None,
    on_progress: OnProgress | None = None,
) -> StepRecord:
    """Run a step on the latest version of its table, and measure its effect; returns the record of the step.

    If the step fails, the record has the error. If the step is done, but its effect cannot be measured, a warning is
    logged, and the record has no measured effect.

    Args:
        entry: the record of the step before it is run.
        store: the store of the table.
        engine: makes the engine; called only for a step that reads data files.
        before_deletion, on_progress: see ``operations.upkeep.vacuum``.
    """
    try:
        snapshot = load_snapshot(store)
        if step.verb in _ON_ENGINE:
            run = partial(_rewrite, step, snapshot, engine(), on_progress)
        else:
            run = partial(_upkeep, step, snapshot, before_deletion, on_progress)
        started = time.monotonic()  # without the start of the engine, such as Spark
        result, measure = run()
        seconds = time.monotonic() - started
    except DeltaError as error:
        logger.info("%s of %s failed: %s", step.verb, step.table, error)  # the caller reports the record
        return replace(
            entry,
            status="failed",
            finished_at=clock.now(),
            error_type=type(error).__name__,
            error_code=error.code,
            error=error.description,
        )
    try:
        measured = replace(measure(), seconds=seconds)
    except DeltaError as error:
        logger.warning("the effect of %s of %s cannot be measured: %s", step.verb, step.table, error)
        measured = None
    return replace(entry, status="done", finished_at=clock.now(), version=result.version, measured=measured)


def _rewrite(
    step: Step, snapshot: Snapshot, engine: Engine, on_progress: OnProgress | None
) -> tuple[OperationResult, Measure]:
    """Run a step that reads data files."""
    if step.verb == "compute_statistics":
        from lakehouse_lib.operations.optimize.statistics import compute_statistics

        result = compute_statistics(snapshot, engine)
        return result, partial(_with_statistics, int(result.metrics["numUpdatedFiles"]), step)
    if step.verb == "optimize":
        from lakehouse_lib.operations.optimize.compact import compact

        result = compact(
            snapshot, engine, **step.arguments, min_commit_interval=_COMMIT_SECONDS, on_progress=on_progress
        )
        return result, partial(_rewritten, result.metrics)
    from lakehouse_lib.operations.optimize.z_order.z_order import z_order

    commits: list[Rewrite] = []
    result = z_order(
        snapshot,
        engine,
        **step.arguments,
        min_commit_interval=_COMMIT_SECONDS,
        on_progress=on_progress,
        on_commit=commits.append,
    )
    return result, partial(_z_ordered, snapshot, commits, result.metrics, step.arguments["columns"])


def _upkeep(
    step: Step,
    snapshot: Snapshot,
    before_deletion: Callable[[pa.Table], None] | None,
    on_progress: OnProgress | None,
) -> tuple[OperationResult, Measure]:
    """Run a step that reads no data file."""
    if step.verb == "checkpoint":
        from lakehouse_lib.operations.upkeep.checkpoint import checkpoint

        return checkpoint(snapshot), partial(_checkpointed, snapshot, step)
    if step.verb == "vacuum":
        from lakehouse_lib.operations.upkeep.vacuum import vacuum

        deleted = vacuum(
            snapshot, dry_run=False, **step.arguments, before_deletion=before_deletion, on_progress=on_progress
        )
        return deleted, partial(
            Effect,
            files_removed=int(deleted.metrics["numDeletedFiles"]),
            bytes_freed=int(deleted.metrics["sizeOfDeletedFiles"]),
        )
    from lakehouse_lib.operations.upkeep.cleanup import cleanup

    sizes = {meta.path: meta.size for meta in snapshot.store.list_from(file_names.LOG)}
    deletion = cleanup(snapshot, dry_run=False, **step.arguments)
    freed = sum(sizes.get(path, 0) for path in deletion.files)
    return deletion, partial(Effect, files_removed=len(deletion.files), bytes_freed=freed)


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


def _z_ordered(
    before: Snapshot, commits: Sequence[Rewrite], metrics: Mapping[str, Any], columns: Sequence[str]
) -> Effect:
    """The effect of a Z-order. Its query bytes are the difference that its own commits make to the version before it.

    Files that other writers have added, removed or merged meanwhile do not count, unless the Z-order rewrote them.
    """
    if not commits:
        return replace(_rewritten(metrics), query_bytes=0)
    removed, added = (pa.concat_tables(files) for files in zip(*((c.removed, c.added) for c in commits), strict=True))
    paths = removed["path"].combine_chunks()
    others = before.files.filter(pc.invert(pc.is_in(before.files["path"], value_set=paths)))
    costs = [query_cost(before, columns, pa.concat_tables([others, files])) for files in (removed, added)]
    return replace(_rewritten(metrics), query_bytes=costs[0] - costs[1])


def _with_statistics(updated: int, step: Step) -> Effect:
    """The effect of statistics of some files: their share of the gain that was predicted without corrections."""
    predicted = step.uncorrected or step.predicted
    saved = int(predicted.query_bytes * updated / max(predicted.files_removed, 1))
    return Effect(files_removed=updated, files_added=updated, query_bytes=saved)


def _checkpointed(before: Snapshot, step: Step) -> Effect:
    """The effect of a checkpoint, by the size of its files in the log, and not by earlier corrections."""
    listing = before.store.list_from(file_names.LOG, file_names.first_name(before.version))
    checkpoints, _, _ = classify_log_files(list(listing))
    parts = [part for checkpoint in checkpoints if checkpoint.version == before.version for part in checkpoint.parts]
    written = sum(part.size for part in parts)
    predicted = step.uncorrected or step.predicted
    saved = predicted.query_bytes + predicted.bytes_written - written
    return replace(predicted, bytes_written=written, query_bytes=saved)
