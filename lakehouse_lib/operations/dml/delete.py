"""Delete the rows for which a predicate is true; rows for which it is NULL stay.

Afterwards no file of the table holds such a row, not even one that a deletion vector had hidden: a delete is what an
erasure begins with. That costs a look into every file with a deletion vector, whatever its statistics say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s, strings
from lakehouse_lib.data_skipping import evaluate_partitions, may_match
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.copying import COPIED_COLUMNS, copy_reader
from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.engine.parquet.writer import DataFileWriter
from lakehouse_lib.engine.parquet.written_files import files_table
from lakehouse_lib.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    DeltaProtocolError,
)
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.log.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.files import record_count, total_size
from lakehouse_lib.operations.optimize.clustering.tags import copy_tags
from lakehouse_lib.operations.optimize.rewrite import rewrite_target
from lakehouse_lib.operations.write.write import discard
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import Conflict, OptimisticTransaction, version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties
from lakehouse_lib.transaction.conflict_checker import find_change

_TASK_BYTES = 128 << 20
#: How often a delete is planned anew on files that other commits have put there meanwhile.
_ROUNDS = 10
_OTHER_FILES = (ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError)

#: One row a file that has rows to delete: its log path, its rows deleted and kept, and the file that takes its place
#: (path null: no row is left). Files without such rows are not in it.
DELETED_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("deleted", pa.int64(), nullable=False),
        pa.field("kept", pa.int64(), nullable=False),
        *[one.with_nullable(True) for one in FILE_SCHEMA],
    ]
)


@dataclass(frozen=True)
class DeleteTask:
    """Rewrite those of ``files`` (COPIED_COLUMNS and tags) that hold rows to delete."""

    target: WriteTarget
    files: pa.Table
    predicate: Predicate


@dataclass(frozen=True)
class DeletePlan:
    """What a run will do; also the dry run.

    Attributes:
        whole: files whose every row goes, by their partition values alone.
        tasks: files that may hold rows to delete.
        candidates: the files of the tasks.
    """

    whole: pa.Table
    candidates: pa.Table
    tasks: tuple[DeleteTask, ...]


def plan_delete(
    snapshot: Snapshot, predicate: Predicate | None, parallelism: int = 1, *, known: pa.Array | None = None
) -> DeletePlan:
    """Which files go whole and which must be looked into; no data is read.

    Statistics drop no file that has a deletion vector, because they need not bound the rows that it hides. Each of
    these files is looked into, as far as its partition values allow, at the cost of the predicate's columns.

    Args:
        predicate: None: every row.
        known: keys of files that no task has to look into any more.
    """
    nothing = snapshot.files.slice(0, 0)
    if predicate is None:
        return DeletePlan(snapshot.files, nothing, ())
    candidates = snapshot.prune(predicate)
    if predicate.partition_only(snapshot.partition_columns):
        true = evaluate_partitions(predicate, candidates, snapshot.layout)
        return DeletePlan(candidates.filter(true), nothing, ())
    candidates = _with_hidden_rows(snapshot, predicate, candidates)
    target = rewrite_target(snapshot, data_change=True)
    unknown = candidates
    if known is not None:
        keys = file_keys(candidates.select(KEY_COLUMNS), snapshot.store)
        unknown = candidates.filter(pc.invert(pc.is_in(keys, value_set=known)))
    chosen = unknown.select([*COPIED_COLUMNS, "tags"])
    tasks = [
        DeleteTask(target, chosen.take(pa.array(rows, pa.int64())), predicate)
        for rows in _groups(unknown["size"].to_numpy(), parallelism)
    ]
    return DeletePlan(nothing, candidates, tuple(tasks))


def _with_hidden_rows(snapshot: Snapshot, predicate: Predicate, candidates: pa.Table) -> pa.Table:
    """``candidates`` and the other files in which a deletion vector may hide matching rows."""
    if not pc.any(snapshot.file_columns(["deletionVector"])["deletionVector"].is_valid()).as_py():
        return candidates
    files = snapshot.files
    marked = files.filter(files["deletionVector"].is_valid())
    index = marked.column_names.index("stats")
    unbounded = marked.set_column(index, FILE_SCHEMA.field("stats"), pa.nulls(len(marked), pa.string()))
    may = may_match(predicate, unbounded, snapshot.layout)
    unmarked = candidates.filter(candidates["deletionVector"].is_null())
    return pa.concat_tables([unmarked, marked.filter(may)])


def delete(
    snapshot: Snapshot,
    predicate: Predicate | None,
    engine: Engine,
    *,
    commit_properties: CommitProperties | None = None,
) -> dict[str, Any]:
    """Delete in one commit. Files without a matching row stay as they are, deletion vectors and all.

    Where other commits have added, rewritten or removed files that the predicate may cover, it is planned anew and only
    the files it has not seen are looked into: a delete loses to no append and to no compaction.

    Returns:
        delta-rs' metrics: num_added_files, num_removed_files, num_deleted_rows (None when files that go whole have no
        statistics), num_copied_rows, execution_time_ms, scan_time_ms, rewrite_time_ms; and ``version``, the table's
        version after it. No row to delete: zeros, and no commit, unless matching rows were only hidden by deletion
        vectors: their files are rewritten without them.

    Raises:
        DeltaProtocolError: the table is append-only, or wants a change data feed, or does not say where rows that stay
            keep their ids.
        CommitFailedError: a concurrent change of schema or protocol, or others were faster ten times in a row.
        CommitUnknownError: the store stopped answering while it was asked to commit.
    """
    started = time.monotonic()
    snapshot.check_writable()
    seen = _Seen(pa.array([], pa.string()), pa.array([], pa.string()), DELETED_SCHEMA.empty_table())
    scanning = rewriting = 0.0
    for attempt in range(1, _ROUNDS + 1):
        begun = time.monotonic()
        plan = plan_delete(snapshot, predicate, engine.parallelism, known=seen.keys)
        planned = time.monotonic()
        seen = seen.after(engine.run(rewrite_without, plan.tasks) if plan.tasks else None, plan.candidates, snapshot)
        removed, results, stale = seen.among(plan, snapshot)
        scanning, rewriting = scanning + planned - begun, rewriting + time.monotonic() - planned
        added = results.filter(pc.is_valid(results["path"])).select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
        metrics = _metrics(plan, results, added, removed, time.monotonic() - started, scanning, rewriting)
        if not len(removed):
            discard(snapshot.store, stale)
            return {**metrics, "version": snapshot.version}
        try:
            outcome = _transaction(snapshot, predicate, removed, added, metrics).commit(commit_properties)
        except DeltaProtocolError:  # only now is it known that there are rows to remove
            discard(snapshot.store, pa.concat_tables([added, stale]))
            raise
        if not isinstance(outcome, Conflict):
            version = version_of(outcome)
            discard(snapshot.store, stale)
            return {**metrics, "version": version}
        latest = snapshot.update()
        then, now = ((one.protocol, one.metadata) for one in (snapshot, latest))
        change = find_change(then, now, range(snapshot.version + 1, latest.version + 1), latest.store)
        if attempt == _ROUNDS or change is not None or not isinstance(outcome.error, _OTHER_FILES):
            discard(snapshot.store, pa.concat_tables([added, stale]))
            raise change or outcome.error
        snapshot = latest
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Seen:
    """What was looked into so far.

    Attributes:
        keys: of all these files.
        sources: of those that had rows to delete, a row of ``results`` (DELETED_SCHEMA) each.
    """

    keys: pa.Array
    sources: pa.Array
    results: pa.Table

    def after(self, found: pa.Table | None, candidates: pa.Table, snapshot: Snapshot) -> _Seen:
        """With what tasks have found in those of ``candidates`` that were not seen yet."""
        if found is None:
            return self
        keys = file_keys(candidates.select(KEY_COLUMNS), snapshot.store)
        sources = keys.take(pc.index_in(found["source"].combine_chunks(), candidates["path"].combine_chunks()))
        return _Seen(
            pc.unique(pa.concat_arrays([self.keys, keys])),
            pa.concat_arrays([self.sources, sources]),
            pa.concat_tables([self.results, found]),
        )

    def among(self, plan: DeletePlan, snapshot: Snapshot) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The files a plan removes, the results that stand for them, and files written for others that are gone."""
        keys = file_keys(plan.candidates.select(KEY_COLUMNS), snapshot.store)
        removed = pa.concat_tables([plan.whole, plan.candidates.filter(pc.is_in(keys, value_set=self.sources))])
        there = pc.is_in(self.sources, value_set=keys)
        stale = self.results.filter(pc.and_(pc.invert(there), pc.is_valid(self.results["path"])))
        return removed, self.results.filter(there), stale.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)


def _metrics(
    plan: DeletePlan,
    results: pa.Table,
    added: pa.Table,
    removed: pa.Table,
    execution: float,
    scanning: float,
    rewriting: float,
) -> dict[str, Any]:
    whole = record_count(plan.whole)
    return {
        "num_added_files": len(added),
        "num_removed_files": len(removed),
        "num_deleted_rows": None if whole is None else whole + (pc.sum(results["deleted"]).as_py() or 0),
        "num_copied_rows": pc.sum(results["kept"]).as_py() or 0,
        "execution_time_ms": int(execution * 1000),
        "scan_time_ms": int(scanning * 1000),
        "rewrite_time_ms": int(rewriting * 1000),
    }


def _transaction(
    snapshot: Snapshot, predicate: Predicate | None, removed: pa.Table, added: pa.Table, metrics: dict[str, Any]
) -> OptimisticTransaction:
    words = [] if predicate is None else [predicate.text]
    transaction = OptimisticTransaction(snapshot, snapshot.store, "DELETE", {"predicate": words})
    transaction.read(predicate)
    transaction.remove(removed)
    transaction.add(added, keeps_row_ids=True)
    transaction.metrics.update(
        numRemovedFiles=metrics["num_removed_files"],
        numAddedFiles=metrics["num_added_files"],
        numCopiedRows=metrics["num_copied_rows"],
        numRemovedBytes=total_size(removed),
        numAddedBytes=total_size(added),
        executionTimeMs=metrics["execution_time_ms"],
        scanTimeMs=metrics["scan_time_ms"],
        rewriteTimeMs=metrics["rewrite_time_ms"],
    )
    if metrics["num_deleted_rows"] is not None:
        transaction.metrics["numDeletedRows"] = metrics["num_deleted_rows"]
    return transaction


def rewrite_without(task: DeleteTask) -> pa.Table:
    """A delete task: DELETED_SCHEMA. Only the predicate's columns are read until a file is known to have matches."""
    results = []
    for index in range(len(task.files)):
        found = _rewrite(task, task.files.slice(index, 1))
        if found is not None:
            results.append(found)
    return pa.concat_tables(results) if results else DELETED_SCHEMA.empty_table()


def _rewrite(task: DeleteTask, file: pa.Table) -> pa.Table | None:
    target = task.target
    path = file["path"][0].as_py()
    layout = replace(target.layout, row_ids=None)
    looked = TableReader(target.store, layout, layout.columns(sorted(task.predicate.columns)))
    constants = {name: values[0] for name, values in looked.constants(file).items()}
    with looked.open(path, file["deletionVector"][0].as_py(), *FileIds.of(file)) as source:
        held, masks = 0, {}
        for group in looked.candidates(source, path, task.predicate):
            rows = looked.row_group(source, group, constants, deleted_too=True)
            matching = looked.mask(rows, task.predicate)
            live = source.kept(group)
            held += matching.true_count
            masks[group] = matching if live is None else matching.filter(live)
        if not held:
            return None
        deleted = sum(mask.true_count for mask in masks.values())
        kept = source.live_rows - deleted
        written = _copy(task, file, source, masks) if kept else files_table([], data_change=True)
    added = written.columns if len(written) else [pa.nulls(1, one.type) for one in FILE_SCHEMA]
    return pa.Table.from_arrays([strings([path]), int64s([deleted]), int64s([kept]), *added], schema=DELETED_SCHEMA)


def _copy(task: DeleteTask, file: pa.Table, source: DataFile, masks: dict[int, pa.BooleanArray]) -> pa.Table:
    target = task.target
    reader = copy_reader(target)
    values = dict(file["partitionValues"][0].as_py() or ())
    writer = DataFileWriter(target, {name: values.get(name) for name in target.layout.partition_columns})
    try:
        for group in range(source.num_row_groups):
            mask = masks.get(group)
            hit = 0 if mask is None else mask.true_count
            if hit < source.live_rows_of(group):
                rows = reader.row_group(source, group, {})
                writer.write(rows.filter(pc.invert(mask)) if hit else rows)
        # Rows keep their order, and so their clustering.
        return copy_tags(dict(file["tags"][0].as_py() or ()), files_table(writer.finish(), data_change=True))
    except BaseException:
        writer.abort()
        raise


def _groups(sizes: np.ndarray[Any, Any], parallelism: int) -> Iterator[Sequence[int]]:
    """Row numbers by the task: about equal shares, of at most 128 MiB unless a file alone is larger; largest first."""
    if not len(sizes):
        return
    limit = min(_TASK_BYTES, int(sizes.sum()) // (4 * parallelism) + 1)
    group: list[int] = []
    weight = 0
    for row in np.argsort(-sizes, kind="stable").tolist():
        if group and weight + int(sizes[row]) > limit:
            yield group
            group, weight = [], 0
        group.append(row)
        weight += int(sizes[row])
    yield group
