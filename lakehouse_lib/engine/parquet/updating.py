"""Write rows of data files with new values into new files (UPDATE).

If Arrow can evaluate the predicate, the values and the rules of the table, each task finds the matching rows of its
files and writes them. Otherwise, ``Engine.match`` finds the rows first, and then ``Engine.update`` writes them. On
Spark, an update that reads few bytes also runs in these two steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import flags_of, int64s, numbers_of
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.computing import with_computed
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA, matches_table, rows_at, shares
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS, TableReader
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of, results_of
from lakehouse_lib.engine.parquet.writer import write_checked
from lakehouse_lib.expressions import Predicate, Value, values_of
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.deletion_vector import bitmap_of


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
    """The update tasks for files, in shares of about equal size, the largest files first.

    Args:
        files: a files table.
        matches: a table of MATCHES_SCHEMA with the same files in the same order.
    """
    task_files = files.select([*COPIED_COLUMNS])
    return [
        UpdateTask(target, task_files.take(int64s(rows)), matches["positions"].take(int64s(rows)), values)
        for rows in shares(numbers_of(files["size"], np.int64), parallelism)
    ]


@dataclass(frozen=True)
class MatchingUpdateTask:
    """A task that finds the rows of files for which a predicate is true, and writes them with new values.

    Attributes:
        target: the table.
        files: COPIED_COLUMNS of the files.
        values: the new values by column, as the schema spells it.
    """

    target: WriteTarget
    files: pa.Table
    predicate: Predicate
    values: Mapping[str, Value]


def update_matching_rows(
    engine: Engine, target: WriteTarget, files: pa.Table, predicate: Predicate, values: Mapping[str, Value]
) -> tuple[pa.Table, pa.Table]:
    """Find the live rows for which a predicate is true, and write them with new values as new data files.

    Arrow must be able to evaluate the predicate, the values and the rules of the target.

    Args:
        files: a files table of the files to search.
        values: the new values by column, as the schema spells it.

    Returns:
        The matches without deleted rows (MATCHES_SCHEMA), and the files table of the new files.

    Raises:
        DeltaError: the error of a task. The files of all tasks are deleted.
    """
    task_files = files.select([*COPIED_COLUMNS])
    tasks = [
        MatchingUpdateTask(target, task_files.take(int64s(rows)), predicate, values)
        for rows in shares(numbers_of(files["size"], np.int64), engine.parallelism)
    ]

    def delete_written(results: Iterable[tuple[pa.Table, pa.Table]]) -> None:
        delete_files((files for _, files in results), target.store)

    results = results_of(engine.run(match_and_update_rows, tasks), delete_written)
    matches = [pa.Table.from_batches([], MATCHES_SCHEMA), *(result[0] for result in results)]
    written = [pa.Table.from_batches([], FILE_SCHEMA), *(result[1] for result in results)]
    return pa.concat_tables(matches), pa.concat_tables(written)


def match_and_update_rows(task: MatchingUpdateTask) -> pa.Table:
    """Run a matching update task. The result (RESULT_SCHEMA) holds the matches and the files table of the task."""

    def run() -> tuple[pa.Table, pa.Table]:
        target = task.target
        matches: list[pa.Table] = [pa.Table.from_batches([], MATCHES_SCHEMA)]
        recomputed = target.computed.recomputed(task.values)
        files = write_checked(with_computed(_update_matches(task, matches), recomputed, target), target)
        return pa.concat_tables(matches), files

    return result_of(run)


def _update_matches(task: MatchingUpdateTask, matches: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The matching rows with new values. Appends the matches of each file to ``matches``.

    The columns of the predicate are read first. All columns are read only from row groups with a matching row.
    """
    store, layout, predicate = task.target.store, task.target.layout, task.predicate
    predicate_reader = TableReader(store, replace(layout, row_ids=None), layout.columns(sorted(predicate.columns)))
    reader = TableReader(store, layout, layout.schema)
    for path, (file, constants) in zip(task.files["path"].to_pylist(), reader.files(task.files), strict=True):
        positions = []
        for group in predicate_reader.candidates(file, predicate):
            matching = predicate_reader.mask(
                predicate_reader.row_group(file, group, constants, include_deleted=True), predicate
            )
            live_mask = file.live_mask(group)
            matching = matching if live_mask is None else pc.and_(matching, live_mask)
            if matching.true_count:
                positions.append(file.starts[group] + np.flatnonzero(flags_of(matching)))
                yield from _with_new_values(
                    reader.row_group(file, group, constants, mask=matching), task.values, task.target
                )
        if positions:
            matches.append(
                matches_table([path], [file.metadata.num_rows], [bitmap_of(np.concatenate(positions)).serialize()])
            )


def run_update_tasks(engine: Engine, tasks: Sequence[UpdateTask], target: WriteTarget) -> pa.Table:
    """Run update tasks on an engine; returns the files table of the files that they wrote.

    Raises:
        DeltaError: the error of a task. The files of all tasks are deleted.
    """
    written: list[pa.Table] = results_of(engine.run(update_rows, tasks), partial(delete_files, store=target.store))
    return pa.concat_tables([pa.Table.from_batches([], FILE_SCHEMA), *written])


def update_rows(task: UpdateTask) -> pa.Table:
    """Run an update task. The result (RESULT_SCHEMA) holds the files table of the new files.

    Rows that a deletion vector hides are not updated. Updated rows keep their row id, and get the version of the commit
    as row commit version.
    """
    target = task.target
    recomputed = target.computed.recomputed(task.values)
    return result_of(lambda: write_checked(with_computed(_updated_rows(task), recomputed, target), target))


def _updated_rows(task: UpdateTask) -> Iterator[pa.RecordBatch]:
    """The rows at the positions of a task, with new values."""
    reader = TableReader(task.target.store, task.target.layout, task.target.layout.schema)
    for rows in rows_at(reader, task.files, task.positions.to_pylist()):
        yield from _with_new_values(rows, task.values, task.target)


def _with_new_values(rows: pa.Table, values: Mapping[str, Value], target: WriteTarget) -> Iterator[pa.RecordBatch]:
    """The rows with new values. Their row commit versions become null, which stands for the version of the commit."""
    columns = dict(zip(rows.column_names, rows.columns, strict=True))
    columns |= values_of(values, rows, target.layout.schema, table=target.store.root)
    if target.layout.row_ids is not None:
        columns[target.layout.row_ids.versions] = pa.nulls(len(rows), pa.int64())
    yield from pa.table(columns).to_batches()
