"""Compute statistics that are missing in the log, from the footers of the data files (COMPUTE STATS in the log)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, strings
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.footer import FooterStatistics
from lakehouse_lib.engine.parquet.writer import indexed_leaves
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.json_text import parse_json
from lakehouse_lib.operations.optimize.compact import check_partition_predicate
from lakehouse_lib.operations.optimize.file_update import FileUpdate
from lakehouse_lib.operations.replanning import commit_change
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import Field, PrimitiveType, StructType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import (
    ColumnPath,
    StatisticsColumns,
    WrittenStatistics,
    leaves,
    with_loose_bounds,
    with_missing,
)
from lakehouse_lib.store.concurrent import at_once
from lakehouse_lib.transaction.commit_properties import CommitProperties

_MOST_FILES = 1_000


@dataclass(frozen=True)
class FooterTask:
    """A task that reads the footers of files (path, stats and deletionVector of a files table)."""

    statistics: FooterStatistics
    files: pa.Table


def plan_statistics(snapshot: Snapshot, predicate: Predicate | None = None) -> pa.Table:
    """The files (FILE_SCHEMA) with missing statistics; reads no data file.

    A file has missing statistics if the log does not have its row count, or the null count of a column that should have
    statistics by the table's properties.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
    """
    check_partition_predicate(snapshot, predicate)
    files = snapshot.prune(predicate)
    counts = _counts(snapshot.layout.physical.schema, _indexed(snapshot))
    selection = WrittenStatistics(counts, StructType([]))
    return files.filter(bools(selection.without_counts(selection.from_json(files["stats"]))))


def compute_statistics(
    snapshot: Snapshot,
    engine: Engine,
    *,
    predicate: Predicate | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Add statistics that are missing in the log, in one commit. No row changes, and no file is rewritten.

    Only footers are read. Statistics that a footer does not have stay missing, such as the bounds of INT96 timestamps
    and, except in files of Spark, the max of floating-point numbers. Statistics in the log stay as they are. If a file
    has a deletion vector, its new bounds are not tight (``tightBounds`` false), because a footer covers deleted rows.

    A file that a concurrent commit removes or changes is left out. Appends do not conflict.

    Args:
        predicate: on partition columns; None: the whole table.

    Returns:
        Metrics: numUpdatedFiles, numFootersRead, totalConsideredFiles, executionTimeMs. If the footers have no
        statistics that are missing in the log, nothing is committed.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
        ObjectNotFoundError: a data file does not exist.
        CommitFailedError: a concurrent change of schema or protocol.
    """
    started = time.monotonic()
    snapshot.check_writable()
    files = plan_statistics(snapshot, predicate)
    reader = FooterStatistics(snapshot.store, snapshot.layout, _indexed(snapshot))
    chosen = files.select(["path", "stats", "deletionVector"])
    share = max(1, min(_MOST_FILES, -(-len(files) // (4 * engine.parallelism))))
    tasks = [FooterTask(reader, chosen.slice(start, share)) for start in range(0, len(files), share)]
    change = FileUpdate(
        "COMPUTE STATS",
        {"predicate": "[]" if predicate is None else [predicate.text]},
        _with_statistics(files, engine.run(read_statistics, tasks)) if tasks else files,
        predicate,
        started,
    )
    committed = commit_change(snapshot, change, commit_properties)
    metrics = {
        **change.metrics(),
        "numFootersRead": len(files),
        "totalConsideredFiles": snapshot.file_count if predicate is None else len(snapshot.prune(predicate, ["path"])),
    }
    return ChangeResult(snapshot.store.root, *committed, metrics)


def read_statistics(task: FooterTask) -> pa.Table:
    """Run a task; returns the ``path`` and the complete ``stats`` of each file."""
    reader, files = task.statistics, task.files
    paths = file_paths.decode_all(files["path"], reader.store).to_pylist()
    texts = at_once(reader.store, reader.of, paths)
    are_marked = files["deletionVector"].is_valid().to_pylist()
    stats = [
        _complete(old, new, is_marked=is_marked)
        for old, new, is_marked in zip(files["stats"].to_pylist(), texts, are_marked, strict=True)
    ]
    return pa.table({"path": files["path"].combine_chunks(), "stats": strings(stats)})


def _complete(old: str | None, new: str, *, is_marked: bool) -> str:
    stats = with_missing(old, new)
    return with_loose_bounds(stats, parse_json(new)["numRecords"]) if is_marked else stats


def _with_statistics(files: pa.Table, results: pa.Table) -> pa.Table:
    """The files whose statistics differ from those in the log, with the new ones."""
    order = pc.index_in(files["path"], value_set=results["path"].combine_chunks())
    stats = results["stats"].combine_chunks().take(order.combine_chunks())
    is_new = pc.fill_null(pc.not_equal(files["stats"], stats), True)
    files = files.set_column(files.column_names.index("stats"), FILE_SCHEMA.field("stats"), stats)
    return files.filter(is_new)


def _indexed(snapshot: Snapshot) -> StatisticsColumns:
    """The columns of which a footer can have statistics, under their physical names."""
    indexed = indexed_leaves(WriteTarget(snapshot.store, snapshot.layout, snapshot.configuration))
    can_have = {
        path
        for path, kind in leaves(snapshot.layout.physical.schema)
        if isinstance(kind, PrimitiveType) and kind.is_known and kind.type != "void"
    }
    return StatisticsColumns(indexed.paths & can_have)


def _counts(schema: StructType, indexed: StatisticsColumns, above: ColumnPath = ()) -> StructType:
    """The columns with statistics; each leaf has the type long, for a count of nulls."""
    fields = []
    for column in schema.fields:
        path = (*above, column.name)
        if isinstance(column.type, StructType):
            members = _counts(column.type, indexed, path)
            fields += [Field(column.name, members)] if members.fields else []
        elif path in indexed:
            fields.append(Field(column.name, PrimitiveType("long")))
    return StructType(fields)
