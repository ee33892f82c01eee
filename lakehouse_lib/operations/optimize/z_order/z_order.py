"""Z-order a table: rewrite its files so that a predicate on any of the chosen columns reads few files.

The plan builds a k-d tree for each partition from a sample of its keys. A run moves the rows into the leaves of the
trees by one exchange: ``scatter`` sends the rows of the old files, then ``gather`` writes the new files. A commit
replaces the files. The verb has delta-spark's name, but the default layout is a k-d tree, which skips more files than a
Z-order curve.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import statistics
from lakehouse_lib.arrow.values import numbers_of, strings
from lakehouse_lib.engine.base import Engine, after
from lakehouse_lib.engine.parquet.task_results import delete_files, results_of
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, LogCorruptedError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features.file_layout.clustering import PROVIDER, columns_text
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import clock
from lakehouse_lib.log.retention.tombstones import retention
from lakehouse_lib.operations.files import discard, discard_paths, live_records, total_size
from lakehouse_lib.operations.optimize.commit_groups import check_commit_interval, commit_groups
from lakehouse_lib.operations.optimize.limit import check_max_bytes
from lakehouse_lib.operations.optimize.rewrite import Rewrite, rewrite_metrics, run_with_replanning
from lakehouse_lib.operations.optimize.z_order import saved_trees
from lakehouse_lib.operations.optimize.z_order.deleted_positions import DeletedRowSearch
from lakehouse_lib.operations.optimize.z_order.keys import has_order
from lakehouse_lib.operations.optimize.z_order.plan import Plan, PlannedRun, keys_reader, plan_z_order
from lakehouse_lib.operations.optimize.z_order.selection import physical_names
from lakehouse_lib.operations.optimize.z_order.shuffle import NUMBER, gather, scatter
from lakehouse_lib.operations.optimize.z_order.tags import LAYOUTS, places_of, with_tags
from lakehouse_lib.operations.partition_predicate import check_partition_predicate
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.progress import Counter, OnProgress
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def z_order(
    snapshot: Snapshot,
    engine: Engine,
    columns: Iterable[str] | None = None,
    *,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    layout: str | None = None,
    full: bool = False,
    max_bytes: int | None = None,
    min_commit_interval: float | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    on_progress: OnProgress | None = None,
    on_commit: Callable[[Rewrite], None] | None = None,
) -> ChangeResult:
    """Rewrite files so that rows with near values in ``columns`` are in the same file.

    A file stays if an earlier run has Z-ordered it by the same columns and about the same target size (see
    ``z_order.tags``), unless a deletion vector deletes more than 5% of its rows. The other files become a new run,
    together with small files of earlier runs. If a partition would have four runs, the rows of the smaller runs join
    the cells of the largest run, by its saved tree (see ``z_order.selection``). If no file has to be Z-ordered, nothing
    is committed.

    A new run writes ceil(bytes / target size) files with about equal numbers of rows in each partition. Equal values
    share a file, unless they do not fit into one file. A partition is left out if only one file would be rewritten, the
    file fits the target, and at most 5% of its rows are deleted. If a concurrent commit removes a file, only the
    file's partition is left out. Rows that a concurrent commit hides by a deletion vector are hidden in the new files
    too.

    Args:
        columns: the columns that queries filter by, about four at most; their order does not matter. None: the
            clustering columns of the table (CLUSTER BY). A clustered table takes no other columns.
        target_size: bytes of a file; None: ``delta.targetFileSize``, else 100 MiB.
        predicate: on partition columns only: the partitions to Z-order; None: all.
        layout: "kd" (a k-d tree), "zorder" or "hilbert" (the curves); Z-ordered files of another layout are rewritten.
            None: the layout of the Z-ordered files, else "kd", with which queries skip the most files.
        full: rewrite Z-ordered files too, so that all files of a partition belong to one run.
        max_bytes: a limit for the bytes to read. The partition with the oldest file is rewritten first, then the
            partitions with the smallest files. Larger partitions are left out. None: no limit.
        min_commit_interval: seconds. Finished partitions are committed when this time has passed since the last commit,
            and at the end, so that a killed run does not lose them; see ``compact``. None: one commit at the end.
        on_progress: called when a task has read old files, and when a task has written a new file.
        on_commit: called after each commit, with the files that it has removed and added.

    Returns:
        The metrics of ``compact``, ``numFilesAlreadyClustered`` (of the considered files) and ``zOrderBy``.

    Raises:
        InvalidArgumentError: no column is given; the table is clustered by other columns; a column is unknown, a
            partition column, or has no order or no statistics; the target size or ``max_bytes`` is not positive; the
            layout is unknown; the predicate refers to a column that is not a partition column; the interval is negative
            or is given together with application transactions.
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed a file of every partition
            in each attempt (``rewrite.run_with_replanning``). Earlier commits of this call remain.
        LogCorruptedError: the written files have another number of rows than the log says.
    """
    started = time.monotonic()
    snapshot.check_writable()
    key_columns = check_columns(snapshot, columns, predicate)
    size = target_file_size(snapshot.configuration, target_size, table=snapshot.store.root)
    check_max_bytes(max_bytes, snapshot.store.root)
    check_commit_interval(min_commit_interval, commit_properties, snapshot.store.root)
    if layout is not None and layout not in LAYOUTS:
        raise InvalidArgumentError(
            f"layout is {excerpt(layout)}; expected one of {', '.join(LAYOUTS)}",
            table=snapshot.store.root,
            hint="Leave layout out to use the layout of the Z-ordered files, or kd if no file is Z-ordered",
        )

    def attempt(snapshot: Snapshot) -> ChangeResult:
        plan = plan_z_order(
            snapshot,
            key_columns,
            size,
            predicate,
            engine.parallelism,
            layout=layout,
            full=full,
            max_bytes=max_bytes,
            interval=min_commit_interval,
            writer_properties=writer_properties,
        )
        if not plan.runs:
            nothing = plan.files.slice(0, 0)
            return ChangeResult(
                snapshot.store.root, snapshot.version, None, _metrics(plan, nothing, nothing, key_columns, started)
            )
        is_clustering = {(name,) for name in key_columns} == set(snapshot.clustering_columns)
        parameters: dict[str, Any] = {
            "predicate": [] if predicate is None else [predicate.sql],
            "zOrderBy": [] if is_clustering else list(key_columns),
            "auto": False,
            "targetSize": size,
        }
        if is_clustering:
            parameters |= {"clusterBy": list(key_columns), "isFull": full}
        counter = None if on_progress is None else _counter(plan, on_progress)
        writing = _Writing(snapshot, engine, key_columns, size, PROVIDER if is_clustering else None, counter)
        done: list[Rewrite] = []
        first_tasks = np.cumsum([0, *(len(run.tasks) + len(run.outputs) for run in plan.runs)]).tolist()
        rewrites = map(writing.rewrite_of, plan.runs, first_tasks)
        for versions, rewrite in commit_groups(
            snapshot, rewrites, min_commit_interval, "OPTIMIZE", parameters, started, commit_properties
        ):
            committed = versions
            done.append(rewrite)
            if on_commit is not None:
                on_commit(rewrite)
            writing.save_trees(plan.runs, rewrite)
        if counter is not None:
            counter.finish()
        _delete_old_trees(snapshot, plan)
        removed, added = (pa.concat_tables(files) for files in zip(*((r.removed, r.added) for r in done), strict=True))
        metrics = _metrics(plan, removed, added, key_columns, started)
        return ChangeResult(snapshot.store.root, *committed, metrics)

    return run_with_replanning(snapshot, attempt)


@dataclass(frozen=True)
class _Writing:
    """Writes the files of runs, and saves the trees of runs that are committed.

    Attributes:
        snapshot: the version of the plan.
        columns: the columns of the Z-order.
        target_size: bytes of a file.
        provider: ``clusteringProvider`` of the files.
        counter: counts the tasks of all runs; None: nothing is counted.
    """

    snapshot: Snapshot
    engine: Engine
    columns: tuple[str, ...]
    target_size: int
    provider: str | None
    counter: Counter | None

    def rewrite_of(self, run: PlannedRun, first_task: int) -> Rewrite:
        """Write the files of a run. Each partition is a group, because rows do not leave their partition.

        Args:
            first_task: the number of the run's first task in the counter.

        Raises:
            LogCorruptedError: the written files have another number of rows than the log says. They are deleted.
            DeltaError: the error of a file that could not be written. The other files are deleted.
        """
        on_task = None if self.counter is None else after(first_task, self.counter.end)
        answers = self.engine.exchange(scatter, gather, run.tasks, run.outputs, on_task)
        parts = results_of(answers, partial(delete_files, store=self.snapshot.store))
        # Without any row, the result has no files and no column with their numbers.
        written = pa.concat_tables(parts) if parts else pa.Table.from_batches([], FILE_SCHEMA)
        numbers = numbers_of(written[NUMBER], "i8") if len(written) else np.zeros(0, np.int64)
        added = with_tags(
            written.select(FILE_SCHEMA.names),
            [run.places[number] for number in numbers.tolist()],
            physical_names(self.snapshot, self.columns),
            self.target_size,
            provider=self.provider,
        )
        try:
            _check_rows(self.snapshot, run.files, added)
        except LogCorruptedError:
            discard(self.snapshot.store, added)
            raise
        paths = _by_number(written, len(run.outputs))
        new_positions = DeletedRowSearch(self.engine, keys_reader(self.snapshot, self.columns), run.tasks, paths)
        return Rewrite(run.files, run.parts, added, run.output_parts[numbers], new_positions)

    def save_trees(self, runs: Iterable[PlannedRun], committed: Rewrite) -> None:
        """Save the trees of the committed partitions.

        A tree contains values of rows. If an erasure removed these rows and deleted all trees during the run, a tree
        that is saved afterwards would stay. Therefore the trees are saved after the commit, without the partitions that
        the commit left out. They are deleted again if a file of the commit is no longer live. An erasure that runs
        after this check deletes them.
        """
        store, parts = self.snapshot.store, frozenset(np.unique(committed.added_groups).tolist())
        types = [self.snapshot.field(name).type.to_arrow() for name in self.columns]
        saved = []
        for run in runs:
            if parts & run.trees.keys():
                trees = [tree if part in parts else None for part, tree in run.trees.items()]
                saved_trees.save(store, run.name, trees, types)
                saved.append(saved_trees.tree_path(run.name))
        try:
            live = self.snapshot.update().file_columns(["path"])["path"] if saved else committed.added["path"]
            is_live = pc.all(pc.is_in(committed.added["path"], value_set=live.combine_chunks()), min_count=0).as_py()
        except DeltaError:
            is_live = False
        if not is_live:
            discard_paths(store, strings(saved))


def check_columns(snapshot: Snapshot, columns: Iterable[str] | None, predicate: Predicate | None) -> tuple[str, ...]:
    """The names of the columns to Z-order by, in the schema's spelling. None: the table's clustering columns.

    Raises:
        InvalidArgumentError: a column, or the predicate, is not valid; see ``z_order``.
    """

    def refusal(problem: str, hint: str, code: str | None = None) -> InvalidArgumentError:
        return InvalidArgumentError(problem, table=snapshot.store.root, version=snapshot.version, hint=hint, code=code)

    check_partition_predicate(snapshot, predicate)
    clustering = snapshot.clustering_columns
    if columns is None:
        columns = default_columns(snapshot)
        if clustering and not columns:
            raise refusal(
                f"the table is clustered by {columns_text(clustering)}; expected columns that are not in structs",
                "Run OPTIMIZE in the engine that set these columns, or set other columns with alter.cluster_by",
            )
    names = (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, Iterable) else ()
    if not names:
        raise refusal(
            f"columns is {columns!r}; expected at least one name",
            "Name the columns that queries filter by; a table with clustering columns needs none",
        )
    # Use the schema's spelling, because readers and writers match names in any case.
    names = tuple(snapshot.field(name).name for name in names)
    if len(set(names)) < len(names):
        raise refusal(f"columns is {list(names)}; expected different names", "Name each column once")
    if clustering and {(name,) for name in names} != set(clustering):
        raise InvalidArgumentError(
            f"columns is {list(names)}; expected the clustering columns of the table, {columns_text(clustering)}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Leave columns out, or change the clustering columns first with alter.cluster_by",
            code="DELTA_CLUSTERING_WITH_ZORDER_BY",
        )
    indexed = statistics.indexed_columns(snapshot.layout, snapshot.configuration)
    for name in names:
        field = snapshot.field(name)
        if name in snapshot.partition_columns:
            raise refusal(
                f"column {name!r} is a partition column",
                "Its values are in separate folders; name other columns",
                code="DELTA_ZORDERING_ON_PARTITION_COLUMN",
            )
        if not has_order(field.type.to_arrow()):
            raise refusal(
                f"column {name!r} of type {field.type} has no order to Z-order by",
                "Name columns of numbers, strings, booleans, dates or timestamps",
                code="DELTA_ZORDERING_DATATYPE_NOT_SUPPORTED",
            )
        if (name,) not in indexed:
            raise refusal(
                f"column {name!r} has no statistics, so readers could not skip files by it",
                "Add it to delta.dataSkippingStatsColumns or raise delta.dataSkippingNumIndexedCols",
                code="DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
            )
    return names


def default_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """The clustering columns of the table; empty if one of them is a member of a struct."""
    paths = snapshot.clustering_columns
    return tuple(path[0] for path in paths) if all(len(path) == 1 for path in paths) else ()


def _counter(plan: Plan, on_progress: OnProgress) -> Counter:
    """The counter of the tasks of all runs.

    The bytes of a run's files are divided equally among its tasks that read, and again among its tasks that write.
    """
    sizes = []
    for run in plan.runs:
        counts = [len(run.tasks), len(run.outputs)]
        sizes.append(np.repeat([total_size(run.files) // max(1, count) for count in counts], counts))
    return Counter("tasks", on_progress, np.concatenate(sizes))


def _check_rows(snapshot: Snapshot, removed: pa.Table, added: pa.Table) -> None:
    """Refuse written files if their number of rows differs from the number that the log gives for the removed files.

    Raises:
        LogCorruptedError: the numbers differ, so rows would be lost or duplicated.
    """
    before, after = live_records(removed), live_records(added)
    if before.null_count or after.null_count:
        return
    expected, written_rows = pc.sum(before).as_py() or 0, pc.sum(after, min_count=0).as_py()
    if expected != written_rows:
        raise LogCorruptedError(
            f"the files have {written_rows} rows; expected {expected} rows by numRecords",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing was committed. Find the add action whose numRecords differs from its file's footer",
        )


def _delete_old_trees(snapshot: Snapshot, plan: Plan) -> None:
    """Delete the trees of runs without live files, if they are older than the table's retention of removed files.

    A failure is not reported, because the Z-order is committed, and the next one tries again.
    """
    with suppress(DeltaError):
        runs = places_of(snapshot.file_columns(["tags"])).names.to_pylist()
        cutoff = clock.now() - retention(snapshot.configuration, snapshot.store.root)
        saved_trees.delete_old(snapshot.store, {*runs, *(run.name for run in plan.runs)}, cutoff)


def _by_number(written: pa.Table, files: int) -> list[str | None]:
    """The paths of files by their numbers; None for a file without rows, which is not written."""
    paths: list[str | None] = [None] * files
    if len(written):
        for number, path in zip(written[NUMBER].to_pylist(), written["path"].to_pylist(), strict=True):
            paths[number] = path
    return paths


def _metrics(
    plan: Plan, removed: pa.Table, added: pa.Table, key_columns: Sequence[str], started: float
) -> dict[str, Any]:
    batches = sum(len(run.tasks) for run in plan.runs)
    metrics = rewrite_metrics(
        plan.considered, removed, added, partitions=plan.partitions, batches=batches, started=started
    )
    return {**metrics, "numFilesAlreadyClustered": plan.already_z_ordered, "zOrderBy": list(key_columns)}
