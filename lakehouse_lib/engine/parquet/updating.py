"""Rows of data files with new values in some columns, written into new files (UPDATE)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.values import int64s, numbers_of
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.computing import with_computed
from lakehouse_lib.engine.parquet.matching import rows_at, shares
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS, TableReader
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of, results_of
from lakehouse_lib.engine.parquet.writer import write_checked
from lakehouse_lib.expressions import Value, values_of
from lakehouse_lib.protocol.actions import FILE_SCHEMA


@dataclass(frozen=True)
class UpdateTask:
    """A task that writes the matching rows of files with new values.

    Attributes:
        target: the table.
        files: COPIED_COLUMNS of the files.
        positions: the positions of matching rows in each file, as in MATCHES_SCHEMA.
        values: the new values by column, as the schema spells it.
    """

    target: WriteTarget
    files: pa.Table
    positions: pa.ChunkedArray
    values: Mapping[str, Value]


def update_tasks(
    target: WriteTarget, files: pa.Table, matches: pa.Table, values: Mapping[str, Value], parallelism: int
) -> list[UpdateTask]:
    """Update tasks for files, in shares of about equal size.

    Args:
        files: a files table.
        matches: a table of MATCHES_SCHEMA with the same files in the same order.
    """
    read = files.select([*COPIED_COLUMNS])
    return [
        UpdateTask(target, read.take(int64s(rows)), matches["positions"].take(int64s(rows)), values)
        for rows in shares(numbers_of(files["size"], np.int64), parallelism)
    ]


def updated_files(engine: Engine, tasks: Sequence[UpdateTask], target: WriteTarget) -> pa.Table:
    """Run update tasks on an engine; returns the files table of the files that they wrote.

    Raises:
        DeltaError: the error of a task. The files of all tasks are deleted.
    """
    written: list[pa.Table] = results_of(engine.run(update_rows, tasks), partial(delete_files, store=target.store))
    return pa.concat_tables([pa.Table.from_batches([], FILE_SCHEMA), *written])


def update_rows(task: UpdateTask) -> pa.Table:
    """Run an update task; the result is the files table of the files that it wrote (RESULT_SCHEMA).

    Rows that a deletion vector hides are not updated. Updated rows keep their row id, and get the version of the commit
    as row commit version.
    """
    target = task.target
    recomputed = target.computed.recomputed(task.values)
    return result_of(lambda: write_checked(with_computed(_updated(task), recomputed, target), target))


def _updated(task: UpdateTask) -> Iterator[pa.RecordBatch]:
    target, schema = task.target, task.target.layout.schema
    reader = TableReader(target.store, target.layout, schema)
    for rows in rows_at(reader, task.files, task.positions.to_pylist()):
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        columns |= values_of(task.values, rows, schema, table=target.store.root)
        if target.layout.row_ids is not None:
            columns[target.layout.row_ids.versions] = pa.nulls(len(rows), pa.int64())
        yield from pa.table(columns).to_batches()
