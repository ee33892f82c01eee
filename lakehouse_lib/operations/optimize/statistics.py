"""Compute statistics that are missing in the log, from the data files (COMPUTE STATS in the log).

The footer of a file has most statistics. Only columns without statistics in the footer are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, flags_of, literal, strings
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.column_statistics import ColumnStatistics
from lakehouse_lib.engine.parquet.footer import FooterStatistics
from lakehouse_lib.engine.parquet.writer import indexed_leaves
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.json_text import parse_json
from lakehouse_lib.operations.files import file_shares
from lakehouse_lib.operations.optimize.file_update import FileUpdate
from lakehouse_lib.operations.partition_predicate import check_partition_predicate
from lakehouse_lib.operations.replanning import commit_change
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import DataType, Field, PrimitiveType, StructType, TableLayout
from lakehouse_lib.schema.type_widening import CHANGES
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import (
    ColumnPath,
    StatisticsColumns,
    WrittenStatistics,
    has_bounds,
    leaves,
    with_loose_bounds,
    with_missing,
)
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: Files whose statistics are parsed at once.
_FILES_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class StatisticsTask:
    """A task that computes statistics of files (path, stats and deletionVector of a files table).

    Attributes:
        indexed: the columns that have statistics, by physical names.
    """

    store: ObjectStore
    layout: TableLayout
    indexed: StatisticsColumns
    files: pa.Table


def plan_statistics(snapshot: Snapshot, predicate: Predicate | None = None) -> pa.Table:
    """The files (FILE_SCHEMA) with missing statistics; reads no data file.

    A file has missing statistics if the log lacks its row count, or a statistic of a column that has statistics by the
    table's properties: the null count, or both bounds if the column is not null in every row. Bounds are not required
    of floating-point columns, because footers may lack them, and of columns whose type was changed.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
    """
    check_partition_predicate(snapshot, predicate)
    files = snapshot.prune(predicate)
    schema, indexed = snapshot.layout.physical.schema, _indexed(snapshot)
    selection = WrittenStatistics(
        _selected(schema, indexed, lambda _: PrimitiveType("long")),
        _selected(schema, indexed, lambda column: column.type if _surely_has_bounds(column) else None),
    )
    parts = [
        _is_missing(selection, files["stats"].slice(start, _FILES_AT_ONCE))
        for start in range(0, len(files), _FILES_AT_ONCE)
    ]
    return files.filter(bools(np.concatenate([np.zeros(0, np.bool_), *parts])))


def _is_missing(selection: WrittenStatistics, stats: pa.ChunkedArray) -> NDArray[np.bool_]:
    written = selection.from_json(stats)
    rows = written["numRecords"]
    missing = flags_of(rows.is_null())
    for path in selection.leaves:
        if path[0] == "nullCount":
            missing = missing | flags_of(pc.is_null(_statistic(written, path)))
        elif path[0] == "minValues":
            nulls = _statistic(written, ("nullCount", *path[1:]))
            has_values = pc.fill_null(pc.less(nulls, rows), literal(False, pa.bool_()))
            ends = [pc.is_null(_statistic(written, (end, *path[1:]))) for end in ("minValues", "maxValues")]
            missing = missing | flags_of(pc.and_(has_values, pc.and_(*ends)))
    return missing


def _statistic(written: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    return pc.struct_field(written[path[0]], list(path[1:]))


def compute_statistics(
    snapshot: Snapshot,
    engine: Engine,
    *,
    predicate: Predicate | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Add statistics that are missing in the log, in one commit. No row changes, and no file is rewritten.

    Footers are read first. If a footer lacks the null count or a bound of a column, the column is read, for example
    INT96 timestamps, and floating-point numbers in files that Spark did not write. Statistics in the log stay as they
    are. If a file has a deletion vector, its new bounds are not tight (``tightBounds`` false), because they cover
    deleted rows, too.

    A file that a concurrent commit removes or changes is left out. Appends do not conflict.

    Args:
        predicate: on partition columns; None: the whole table.

    Returns:
        Metrics: numUpdatedFiles, numFootersRead, numDataFilesRead (files with columns that were read),
        totalConsideredFiles, executionTimeMs. If no statistics are added, nothing is committed.

    Raises:
        InvalidArgumentError: the predicate refers to a column that is not a partition column.
        ObjectNotFoundError: a data file does not exist.
        CommitFailedError: a concurrent change of schema or protocol.
    """
    started = time.monotonic()
    snapshot.check_writable()
    files = plan_statistics(snapshot, predicate)
    results = statistics_of(snapshot, files, _indexed(snapshot), engine) if len(files) else None
    change = FileUpdate(
        "COMPUTE STATS",
        {"predicate": "[]" if predicate is None else [predicate.text]},
        files if results is None else _with_statistics(files, results),
        predicate,
        started,
    )
    committed = commit_change(snapshot, change, commit_properties)
    metrics = {
        **change.metrics(),
        "numFootersRead": len(files),
        "numDataFilesRead": 0 if results is None else pc.sum(results["is_read"]).as_py(),
        "totalConsideredFiles": snapshot.file_count if predicate is None else len(snapshot.prune(predicate, ["path"])),
    }
    return ChangeResult(snapshot.store.root, *committed, metrics)


def statistics_of(snapshot: Snapshot, files: pa.Table, indexed: StatisticsColumns, engine: Engine) -> pa.Table:
    """The statistics of data files: the statistics in the log, completed from the files. See ``read_statistics``.

    Args:
        files: at least one file of a files table.
        indexed: the columns that get statistics, by physical names.
    """
    chosen = files.select(["path", "stats", "deletionVector"])
    tasks = [
        StatisticsTask(snapshot.store, snapshot.layout, indexed, share)
        for share in file_shares(chosen, engine.parallelism)
    ]
    return engine.run(read_statistics, tasks)


def read_statistics(task: StatisticsTask) -> pa.Table:
    """Run a task; returns for each file its ``path``, the complete ``stats``, and whether columns were read."""
    files, store = task.files, task.store
    footers = FooterStatistics(store, task.layout, task.indexed)
    texts = map_requests(store, footers.of, file_paths.decode_all(files["path"], store).to_pylist())
    columns = ColumnStatistics(store, task.layout)
    stats, are_read = [], []
    for path, old, new, vector in zip(
        files["path"].to_pylist(), files["stats"].to_pylist(), texts, files["deletionVector"].is_valid(), strict=True
    ):
        incomplete = _incomplete_columns(with_missing(old, new), task)
        complete = with_missing(new, columns.of(path, incomplete)) if incomplete else new
        stats.append(_complete(old, complete, is_marked=vector.as_py()))
        are_read.append(bool(incomplete))
    return pa.table({"path": files["path"].combine_chunks(), "stats": strings(stats), "is_read": pa.array(are_read)})


def _incomplete_columns(stats: str, task: StatisticsTask) -> list[ColumnPath]:
    """The columns, by physical names, without a null count or a bound in the statistics of a file."""
    body = parse_json(stats)
    incomplete = []
    for path, kind in leaves(task.layout.physical.schema):
        if path not in task.indexed or not isinstance(kind, PrimitiveType):
            continue
        nulls, *ends = (_token(body, (key, *path)) for key in ("nullCount", "minValues", "maxValues"))
        has_values = nulls is None or nulls < body["numRecords"]
        if nulls is None or (has_values and has_bounds(kind) and None in ends):
            incomplete.append(path)
    return incomplete


def _token(body: Any, path: ColumnPath) -> Any:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _complete(old: str | None, new: str, *, is_marked: bool) -> str:
    stats = with_missing(old, new)
    return with_loose_bounds(stats, parse_json(new)["numRecords"]) if is_marked else stats


def _with_statistics(files: pa.Table, results: pa.Table) -> pa.Table:
    """The files whose new statistics differ from the statistics in the log, with the new statistics."""
    order = pc.index_in(files["path"], value_set=results["path"].combine_chunks())
    stats = results["stats"].combine_chunks().take(order.combine_chunks())
    is_new = pc.fill_null(pc.not_equal(files["stats"], stats), True)
    files = files.set_column(files.column_names.index("stats"), FILE_SCHEMA.field("stats"), stats)
    return files.filter(is_new)


def _indexed(snapshot: Snapshot) -> StatisticsColumns:
    """The columns that can have statistics, under their physical names."""
    indexed = indexed_leaves(WriteTarget(snapshot.store, snapshot.layout, snapshot.configuration))
    can_have = {
        path
        for path, kind in leaves(snapshot.layout.physical.schema)
        if isinstance(kind, PrimitiveType) and kind.is_known and kind.type != "void"
    }
    return StatisticsColumns(indexed.paths & can_have)


def _surely_has_bounds(column: Field) -> bool:
    """Whether a column of a file has bounds unless it is null in every row.

    Floating-point columns may have only NaN. After a change of the type, the log may have bounds of the old type.
    """
    kind = column.type
    is_floating = isinstance(kind, PrimitiveType) and kind.type in ("float", "double")
    return isinstance(kind, PrimitiveType) and has_bounds(kind) and not is_floating and CHANGES not in column.metadata


def _selected(
    schema: StructType,
    indexed: StatisticsColumns,
    kind_of: Callable[[Field], DataType | None],
    above: ColumnPath = (),
) -> StructType:
    """The schema of one statistic: the indexed leaves, each with the type of its statistic.

    Args:
        kind_of: returns the type of a leaf's statistic; None: the leaf is left out.
        above: the path of the struct that has the columns of ``schema``.
    """
    fields = []
    for column in schema.fields:
        path = (*above, column.name)
        if isinstance(column.type, StructType):
            members = _selected(column.type, indexed, kind_of, path)
            fields += [Field(column.name, members)] if members.fields else []
        elif path in indexed and (kind := kind_of(column)) is not None:
            fields.append(Field(column.name, kind))
    return StructType(fields)
