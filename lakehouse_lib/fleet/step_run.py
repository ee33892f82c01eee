"""Run a step of maintenance, and measure its effect."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.planner.query_cost import query_cost
from lakehouse_lib.fleet.planner.step import OPEN_BYTES, Effect, Step
from lakehouse_lib.fleet.runs import StepRecord
from lakehouse_lib.log import clock, file_names
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.segment import classify_log_files
from lakehouse_lib.operations.results import ChangeResult, CleanupResult, OperationResult
from lakehouse_lib.progress import OnProgress
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore

logger = logging.getLogger(__name__)

#: The interval, in seconds, at which a long rewrite commits finished files, so that a killed run does not lose them.
_COMMIT_SECONDS = 600.0


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
    started = time.monotonic()
    try:
        result, effect = _run(step, store, engine, before_deletion, on_progress)
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
    measured = None if effect is None else replace(effect, seconds=time.monotonic() - started)
    return replace(entry, status="done", finished_at=clock.now(), version=result.version, measured=measured)


def _run(
    step: Step,
    store: ObjectStore,
    engine: Callable[[], Engine],
    before_deletion: Callable[[pa.Table], None] | None,
    on_progress: OnProgress | None,
) -> tuple[OperationResult, Effect | None]:
    """Run a step; returns its result and its effect, None if the effect cannot be measured."""
    snapshot = load_snapshot(store)
    result: Any
    if step.verb == "optimize":
        from lakehouse_lib.operations.optimize.compact import compact

        result = compact(
            snapshot,
            engine(),
            **step.arguments,
            min_commit_interval=_COMMIT_SECONDS,
            on_progress=on_progress,
        )
        return result, _rewritten(result.metrics)
    if step.verb == "z_order":
        from lakehouse_lib.operations.optimize.z_order.z_order import z_order

        result = z_order(
            snapshot,
            engine(),
            **step.arguments,
            min_commit_interval=_COMMIT_SECONDS,
            on_progress=on_progress,
        )
        return result, _measured(step, lambda: _z_ordered(snapshot, result, step.arguments["columns"]))
    if step.verb == "compute_statistics":
        from lakehouse_lib.operations.optimize.statistics import compute_statistics

        result = compute_statistics(snapshot, engine())
        updated = int(result.metrics["numUpdatedFiles"])
        share = updated / max(step.predicted.files_removed, 1)
        saved = int(step.predicted.query_bytes * share)
        return result, Effect(files_removed=updated, files_added=updated, query_bytes=saved)
    if step.verb == "checkpoint":
        from lakehouse_lib.operations.upkeep.checkpoint import checkpoint

        result = checkpoint(snapshot)
        return result, _measured(step, lambda: _checkpointed(store, result.read_version, step.predicted))
    if step.verb == "vacuum":
        from lakehouse_lib.operations.upkeep.vacuum import vacuum

        result = vacuum(
            snapshot,
            dry_run=False,
            **step.arguments,
            before_deletion=before_deletion,
            on_progress=on_progress,
        )
        return result, Effect(
            files_removed=int(result.metrics["numDeletedFiles"]), bytes_freed=int(result.metrics["sizeOfDeletedFiles"])
        )
    from lakehouse_lib.operations.upkeep.cleanup import cleanup

    sizes = {meta.path: meta.size for meta in store.list_from(file_names.LOG)}
    deletion: CleanupResult = cleanup(snapshot, dry_run=False, **step.arguments)
    freed = sum(sizes.get(path, 0) for path in deletion.files)
    return deletion, Effect(files_removed=len(deletion.files), bytes_freed=freed)


def _measured(step: Step, measure: Callable[[], Effect]) -> Effect | None:
    """The effect of a step that is done; None if the store cannot be read."""
    try:
        return measure()
    except DeltaError as error:
        logger.warning("the effect of %s of %s cannot be measured: %s", step.verb, step.table, error)
        return None


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


def _z_ordered(before: Snapshot, result: ChangeResult, columns: Sequence[str]) -> Effect:
    """The effect of a Z-order. Its query bytes are the difference that its own commits make to the version before it.

    Files that other writers have added or removed meanwhile do not count.
    """
    effect = _rewritten(result.metrics)
    if result.version is None:
        return replace(effect, query_bytes=0)
    cost_before = query_cost(before, columns, before.files)
    cost_after = query_cost(before, columns, _rewritten_files(before, result.version))
    return replace(effect, query_bytes=cost_before - cost_after)


def _rewritten_files(before: Snapshot, last: int) -> pa.Table:
    """The files of a version, with the changes of the later commits up to ``last`` that change no rows."""

    def of_rewrite(files: pa.Table) -> pa.Table:
        return files.filter(pc.invert(files["dataChange"]))

    commits = [read_commit(before.store, version) for version in range(before.version + 1, last + 1)]
    after = pa.concat_tables([before.files, *(of_rewrite(commit.adds) for commit in commits)])
    removed = pa.concat_tables([of_rewrite(commit.removes) for commit in commits])["path"].combine_chunks()
    return after.filter(pc.invert(pc.is_in(after["path"], value_set=removed)))


def _checkpointed(store: ObjectStore, version: int | None, predicted: Effect) -> Effect:
    """The effect of a checkpoint, by the size of its files in the log."""
    number = 0 if version is None else version
    checkpoints, _, _ = classify_log_files(list(store.list_from(file_names.LOG, file_names.first_name(number))))
    written = sum(part.size for checkpoint in checkpoints if checkpoint.version == number for part in checkpoint.parts)
    return replace(
        predicted, bytes_written=written, query_bytes=predicted.query_bytes + predicted.bytes_written - written
    )
