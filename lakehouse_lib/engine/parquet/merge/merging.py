"""Merge a source into a target: tasks join it with the files, then the source rows without a match are inserted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, int64s, numbers_of
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.computing import with_computed
from lakehouse_lib.engine.merge_plan import MergePlan
from lakehouse_lib.engine.parquet.change_files import changed_rows
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA, shares
from lakehouse_lib.engine.parquet.merge.key_join import KeyJoin, common_type
from lakehouse_lib.engine.parquet.merge.sides import first_clauses, one_side, portions, row_sizes
from lakehouse_lib.engine.parquet.merge.task import MergeTask, TaskResult, run_merge_task
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS
from lakehouse_lib.engine.parquet.task_results import delete_files, results_of
from lakehouse_lib.engine.parquet.writer import write_checked
from lakehouse_lib.expressions import values_of
from lakehouse_lib.expressions.namespace import SOURCE
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.actions import FILE_SCHEMA

#: The least size of a task's files, as a multiple of the source's size.
_LEAST_SHARE = 4


class MergedRows(NamedTuple):
    """The result of a MERGE.

    Attributes:
        matches: the rows to remove from their files (MATCHES_SCHEMA).
        changed: all inserted, updated and deleted rows (CHANGED_ROWS_SCHEMA).
        new_files: files table of the files with updated and inserted rows.
        counts: the number of rows by action (``updated``, ``deleted``, ``inserted``). Updated and deleted rows are also
            counted by case and action (``matched: updated``).
    """

    matches: pa.Table
    changed: pa.Table
    new_files: pa.Table
    counts: Mapping[str, int]


def merge_rows(engine: Engine, files: pa.Table, plan: MergePlan, source: pa.Table, target: WriteTarget) -> MergedRows:
    """Merge a source into files, in tasks on an engine.

    Args:
        files: a files table of all files that may have rows that match the source or that a clause may change.
        source: all rows of the source.

    Raises:
        InvalidArgumentError: several rows of the source match one row that would change.
        SchemaMismatchError: a value is out of the range of its column.
        ConstraintViolatedError: rows violate a rule of the target.
        DeltaError: another error of a task. After an error, the files of all tasks are deleted.
    """
    read = files.select([*COPIED_COLUMNS, "size"])
    join = _join(plan, source, target)
    # Every task gets the whole source.
    least = _LEAST_SHARE * source.nbytes
    parts = shares(numbers_of(files["size"], np.int64), engine.parallelism, least=least)
    with engine.share((source, join)) as shared:
        run = engine.run(run_merge_task, [MergeTask(target, read.take(int64s(rows)), plan, shared) for rows in parts])
    results: list[TaskResult] = results_of(
        run, lambda results: delete_files((result.new_files for result in results), target.store)
    )
    new_files = [result.new_files for result in results]
    is_matched = np.zeros(len(source), np.bool_)
    for result in results:
        is_matched[deletion_vector.positions(result.matched)] = True
    try:
        inserted, count = _insert(plan, source, is_matched, target)
    except BaseException:
        delete_files(new_files, target.store)
        raise
    counts: dict[str, int] = {"inserted": count}
    for result in results:
        for name, rows in result.counts.items():
            counts[name] = counts.get(name, 0) + rows
    removed = pa.concat_tables([pa.Table.from_batches([], MATCHES_SCHEMA), *(result.matches for result in results)])
    changed = pa.concat_tables([*(result.changed for result in results), changed_rows("insert", inserted)])
    return MergedRows(removed, changed, pa.concat_tables([*new_files, inserted]), counts)


def _join(plan: MergePlan, source: pa.Table, target: WriteTarget) -> KeyJoin | None:
    if not plan.keys:
        return None
    kinds = [
        common_type(target.layout.schema.field(target_key).type.to_arrow(), source.schema.field(source_key).type)
        for target_key, source_key in plan.keys
    ]
    return KeyJoin([source[source_key] for _, source_key in plan.keys], kinds)


def _insert(
    plan: MergePlan, source: pa.Table, is_matched: NDArray[np.bool_], target: WriteTarget
) -> tuple[pa.Table, int]:
    """Write the rows of the source that match no row. Returns the files table and the number of rows."""
    clauses = plan.of("not matched")
    count = 0
    next_numbers: dict[str, int] = {}

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal count
        unmatched = np.flatnonzero(~is_matched)
        for part in portions(row_sizes(source)[unmatched]):
            candidates = one_side(SOURCE, source.take(int64s(unmatched[part])))
            chosen = first_clauses(clauses, candidates)
            for number, clause in enumerate(clauses):
                own = candidates.filter(bools(chosen == number))
                if not len(own):
                    continue
                assert clause.values is not None
                count += len(own)
                values = values_of(clause.values, own, target.layout.schema, table=target.store.root)
                columns = {
                    column.name: values.get(column.name, pa.nulls(len(own), column.type))
                    for column in target.layout.schema.to_arrow()
                }
                row_ids = () if target.layout.row_ids is None else target.layout.row_ids.fields
                columns |= {column.name: pa.nulls(len(own), pa.int64()) for column in row_ids}
                missing = target.computed.without(clause.values)
                yield from with_computed(pa.table(columns).to_batches(), missing, target, next_numbers)

    if not clauses:
        return pa.Table.from_batches([], FILE_SCHEMA), 0
    written = write_checked(rows(), target)
    return written, count
