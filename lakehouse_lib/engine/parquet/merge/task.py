"""A task of a MERGE: joins files of a target with the source, and writes the rows with new values.

A task reads the columns of the conditions for one or several row groups at a time, decides about their rows, and reads
and writes the rows that it updates. So its memory grows with the source and with the size of a row group, not with the
target or with the number of changed rows. Of a changed row, only a bit in a bitmap stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import bools, flags_of, int64s
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.computing import with_computed
from lakehouse_lib.engine.merge_plan import MergeCase, MergeClause, MergePlan
from lakehouse_lib.engine.parquet.change_files import changed_rows
from lakehouse_lib.engine.parquet.matching import matches_table
from lakehouse_lib.engine.parquet.merge.key_join import KeyJoin
from lakehouse_lib.engine.parquet.merge.sides import (
    columns_of_sides,
    first_clauses,
    one_side,
    pairs_of_rows,
    portions,
    row_sizes,
    structs_of,
)
from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.engine.parquet.task_results import result_of
from lakehouse_lib.engine.parquet.writer import write_checked
from lakehouse_lib.engine.shared import Shared
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import Value, matches, values_of
from lakehouse_lib.expressions.namespace import SOURCE, TARGET
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.protocol.deletion_vector import bitmap_of

Rows = NDArray[np.int64]

#: The number of pairs of a target row and a source row that are evaluated at a time.
_PAIRS = 1 << 18
#: Row groups are collected until they have this number of target rows, and are joined at once.
_BATCH = 1 << 18
#: The most rows that an error shows.
_SHOWN = 10


@dataclass(frozen=True)
class MergeTask:
    """A task that merges a source into files.

    Attributes:
        target: the table; its layout has ``row_ids`` if rows keep their row ids.
        files: COPIED_COLUMNS and the size of the files.
        shared: all rows of the source, and their ``KeyJoin`` by ``plan.keys``; None for a plan without keys.
    """

    target: WriteTarget
    files: pa.Table
    plan: MergePlan
    shared: Shared


class TaskResult(NamedTuple):
    """The result of a task.

    Attributes:
        matches, new_files, counts: as in ``MergedRows``.
        changed: the updated and deleted rows (CHANGED_ROWS_SCHEMA).
        matched: the rows of the source that match a row of the task's files.
    """

    matches: pa.Table
    changed: pa.Table
    new_files: pa.Table
    counts: Mapping[str, int]
    matched: BitMap64


def run_merge_task(task: MergeTask) -> pa.Table:
    """Run a merge task. The result (RESULT_SCHEMA) holds a ``TaskResult``."""
    return result_of(_MergeRun(task).run)


class _RowGroup(NamedTuple):
    """A row group with its live rows.

    Attributes:
        place: the index of the file in the task.
        number: the number of the row group in the file.
        positions: the positions of the live rows in the file.
    """

    place: int
    file: DataFile
    number: int
    positions: Rows


class _Decisions(NamedTuple):
    """The rows of a batch about which a clause decides, in ascending order. A row may occur several times.

    Attributes:
        rows: the numbers of the rows in the batch.
        clauses: the numbers of their clauses in the plan.
        sources: the numbers of their rows in the source; -1: no row of the source.
    """

    rows: Rows
    clauses: Rows
    sources: Rows

    def between(self, first: int, end: int) -> _Decisions:
        """The decisions about the rows ``first`` to ``end``."""
        part = slice(*np.searchsorted(self.rows, (first, end)))
        return _Decisions(*(column[part] for column in self))

    def where(self, mask: NDArray[np.bool_]) -> _Decisions:
        """The decisions for which the mask is true."""
        return _Decisions(*(column[mask] for column in self))


class _MergeRun:
    """A merge task while it runs."""

    def __init__(self, task: MergeTask) -> None:
        self._files = task.files
        self._plan = task.plan
        source, join = task.shared.load()
        self._source: pa.Table = source
        self._join: KeyJoin | None = join
        self._target = task.target
        self._schema = task.target.layout.schema
        rows = [clause.condition for clause in task.plan.clauses if clause.case != "not matched"]
        conditions = [task.plan.condition, *(condition for condition in rows if condition is not None)]
        names, self._source_names = columns_of_sides(conditions)
        self._condition_names = sorted(names | {target for target, _ in task.plan.keys})
        self._row_counts = [0] * len(task.files)
        self._removed = [BitMap64() for _ in range(len(task.files))]
        self._updated = [BitMap64() for _ in range(len(task.files))]
        self._matched_sources = np.zeros(len(source), np.bool_)
        self._counts: dict[str, int] = {}

    def run(self) -> TaskResult:
        """Decide about all rows, and write the rows with new values."""
        new_files = write_checked(self._new_rows(), self._target)
        deleted = [removed - updated for removed, updated in zip(self._removed, self._updated, strict=True)]
        changed = [
            changed_rows("delete", self._files, self._matches(deleted)),
            changed_rows("update_preimage", self._files, self._matches(self._updated)),
            changed_rows("update_postimage", new_files),
        ]
        matched = bitmap_of(np.flatnonzero(self._matched_sources))
        removed_rows = self._matches(self._removed)
        return TaskResult(removed_rows, pa.concat_tables(changed), new_files, self._counts, matched)

    def _matches(self, positions: Sequence[BitMap64]) -> pa.Table:
        """The rows at these positions of each file, as MATCHES_SCHEMA."""
        indices = [index for index, places in enumerate(positions) if places]
        paths = self._files["path"].to_pylist()
        return matches_table(
            [paths[index] for index in indices],
            [self._row_counts[index] for index in indices],
            [positions[index].serialize() for index in indices],
        )

    def _new_rows(self) -> Iterator[pa.RecordBatch]:
        """The updated rows. Also records and counts the rows that leave their files."""
        is_update = np.array([clause.action == "update" for clause in self._plan.clauses])
        for groups, rows in self._batches():
            decisions = self._decisions_about(rows)
            start = 0
            for group in groups:
                own = decisions.between(start, start + len(group.positions))
                positions = group.positions[own.rows - start]
                start += len(group.positions)
                self._check_once(group, positions)
                for number, clause in enumerate(self._plan.clauses):
                    if clause.action != "insert":
                        self._count(clause, len(_distinct_positions(positions[own.clauses == number])))
                self._removed[group.place] |= bitmap_of(positions)
                is_updated = is_update[own.clauses]
                self._updated[group.place] |= bitmap_of(positions[is_updated])
                if is_updated.any():
                    yield from self._update(group, positions[is_updated], own.where(is_updated))

    # Decisions: the clause for each row.

    def _batches(self) -> Iterator[tuple[list[_RowGroup], pa.Table]]:
        """One or several row groups, and the columns of the conditions for their live rows.

        Each join costs at least a pass over the source, so small row groups are joined together.
        """
        pending: list[tuple[_RowGroup, pa.Table]] = []
        pending_rows = 0
        for group, rows in self._scan():
            pending.append((group, rows))
            pending_rows += len(rows)
            if pending_rows >= _BATCH:
                yield [entry[0] for entry in pending], pa.concat_tables(entry[1] for entry in pending)
                pending, pending_rows = [], 0
        if pending:
            yield [entry[0] for entry in pending], pa.concat_tables(entry[1] for entry in pending)

    def _scan(self) -> Iterator[tuple[_RowGroup, pa.Table]]:
        """Each row group with a live row, and the columns of the conditions for its live rows."""
        layout = replace(self._target.layout, row_ids=None)
        # At least one column is read, because concatenated tables without columns have no rows.
        schema = layout.columns(self._condition_names or layout.data_columns.names[:1])
        reader = TableReader(self._target.store, layout, schema)
        for index, (file, constants) in enumerate(reader.files(self._files)):
            self._row_counts[index] = file.metadata.num_rows
            for number in reader.candidates(file, self._plan.candidates):
                if file.live_rows_of(number):
                    rows = reader.row_group(file, number, constants)
                    live = file.live_mask(number)
                    places = np.arange(len(rows)) if live is None else np.flatnonzero(flags_of(live))
                    yield _RowGroup(index, file, number, file.starts[number] + places), rows

    def _decisions_about(self, rows: pa.Table) -> _Decisions:
        """The decisions about the rows of a batch."""
        parts = [_Decisions(*[np.zeros(0, np.int64)] * 3)]
        is_matched = np.zeros(len(rows), np.bool_)
        for target_rows, source_rows in self._portions(rows):
            pairs = pairs_of_rows(rows, target_rows, self._source, source_rows, self._source_names)
            is_match = flags_of(matches(self._plan.condition, pairs))
            target_rows, source_rows = target_rows[is_match], source_rows[is_match]
            is_matched[target_rows] = True
            self._matched_sources[source_rows] = True
            parts.append(self._decisions_of("matched", pairs.filter(bools(is_match)), target_rows, source_rows))
        if self._plan.of("not matched by source"):
            unmatched = np.flatnonzero(~is_matched)
            sides = one_side(TARGET, rows.filter(bools(~is_matched)))
            parts.append(self._decisions_of("not matched by source", sides, unmatched, np.full(len(unmatched), -1)))
        decisions = _Decisions(*map(np.concatenate, zip(*parts, strict=True)))
        order = np.argsort(decisions.rows, kind="stable")
        return _Decisions(*(column[order] for column in decisions))

    def _decisions_of(self, case: MergeCase, sides: pa.Table, rows: Rows, sources: Rows) -> _Decisions:
        """The decisions of the clauses of a case about these rows."""
        clauses = self._plan.of(case)
        chosen = first_clauses(clauses, sides)
        # The numbers of the clauses in the plan; ``[0]``, because an index of -1 fails on an empty array.
        numbers = np.array([self._plan.clauses.index(clause) for clause in clauses] or [0])
        return _Decisions(rows, numbers[chosen], sources).where(chosen >= 0)

    def _portions(self, rows: pa.Table) -> Iterator[tuple[Rows, Rows]]:
        """The pairs of ``_candidates`` in portions that fit into memory as tables."""
        sizes, source_sizes = row_sizes(rows), row_sizes(self._source.select(sorted(self._source_names)))
        for target_rows, source_rows in self._candidates(rows):
            for part in portions(sizes[target_rows] + source_sizes[source_rows]):
                yield target_rows[part], source_rows[part]

    def _candidates(self, rows: pa.Table) -> Iterator[tuple[Rows, Rows]]:
        """Pairs of rows that may match, in portions."""
        if self._join is not None:
            yield from self._join.pairs([rows[name] for name, _ in self._plan.keys], _PAIRS)
            return
        count = len(self._source)
        step = max(1, _PAIRS // max(1, count))
        for start in range(0, len(rows) if count else 0, step):
            target_rows = np.arange(start, min(start + step, len(rows)))
            for first in range(0, count, _PAIRS):
                source_rows = np.arange(first, min(first + _PAIRS, count))
                yield np.repeat(target_rows, len(source_rows)), np.tile(source_rows, len(target_rows))

    def _check_once(self, group: _RowGroup, positions: Rows) -> None:
        """Refuse several source rows for one target row, unless all matched rows are deleted."""
        repeated_positions = _distinct_positions(positions[1:][positions[1:] == positions[:-1]])
        if self._plan.deletes_every_match or not len(repeated_positions):
            return
        names = [target for target, _ in self._plan.keys] or self._schema.names[:3]
        rows = self._rows_at(group, repeated_positions[:_SHOWN], names)
        raise InvalidArgumentError(
            f"several rows of the source match one row of the target: {rows.select(names).to_pylist()}",
            table=self._target.store.root,
            hint="Reduce the source to one row for each row of the target, for example by an aggregate",
            code="DELTA_MULTIPLE_SOURCE_ROWS_MATCH",
        )

    def _count(self, clause: MergeClause, rows: int) -> None:
        for name in (f"{clause.action}d", f"{clause.case}: {clause.action}d"):
            self._counts[name] = self._counts.get(name, 0) + rows

    # The rows to write.

    def _rows_at(self, group: _RowGroup, positions: Rows, names: Iterable[str]) -> pa.Table:
        """Some columns and the row ids of the rows of a row group at ascending positions."""
        layout = self._target.layout
        reader = TableReader(self._target.store, layout, layout.columns(sorted(names)))
        if not reader.schema.fields and layout.row_ids is None:
            return pa.table({"": pa.nulls(len(positions))})  # a table without columns would have no rows
        own = self._files.slice(group.place, 1)
        constants = {name: values[0] for name, values in reader.constants(own).items()}
        with reader.reopened(group.file) as file:
            file.ids = FileIds.of(own)[0] if layout.row_ids is not None else None
            is_at = np.zeros(file.metadata.row_group(group.number).num_rows, np.bool_)
            is_at[positions - file.starts[group.number]] = True
            return reader.row_group(file, group.number, constants, mask=bools(is_at))

    def _update(self, group: _RowGroup, positions: Rows, decisions: _Decisions) -> Iterator[pa.RecordBatch]:
        """The updated rows of a row group. Columns that every clause assigns and no value reads are not read."""
        numbers = np.flatnonzero(np.bincount(decisions.clauses)).tolist()
        clauses = [self._plan.clauses[number] for number in numbers]
        names = [columns_of_sides([*_values(clause).values()])[0] | self._other_columns(clause) for clause in clauses]
        rows = self._rows_at(group, positions, set().union(*names))
        for number, clause in zip(numbers, clauses, strict=True):
            is_own = decisions.clauses == number
            own = rows if is_own.all() else rows.filter(bools(is_own))
            values = self._with_values(clause, own, decisions.sources[is_own])
            yield from with_computed(values, self._target.computed.recomputed(_values(clause)), self._target)

    def _other_columns(self, clause: MergeClause) -> set[str]:
        """The columns to which a clause assigns no value."""
        return {*self._schema.names} - {*_values(clause)}

    def _with_values(self, clause: MergeClause, rows: pa.Table, source_rows: Rows) -> Iterator[pa.RecordBatch]:
        """Rows of the target with the values of a clause."""
        target_names, source_names = columns_of_sides([*_values(clause).values()])
        source = self._source.select(sorted(source_names))
        # If the clause reads no column of the source, its rows may match no row of the source (-1).
        sizes = row_sizes(source)[source_rows] if source_names else np.zeros(len(rows), np.int64)
        row_ids = self._target.layout.row_ids
        for part in portions(sizes):
            own = rows.slice(part.start, part.stop - part.start)
            sides = pa.table({"": pa.nulls(len(own))})
            if target_names:
                sides = sides.append_column(TARGET, structs_of(own.select(sorted(target_names))))
            if source_names:
                sides = sides.append_column(SOURCE, structs_of(source.take(int64s(source_rows[part]))))
            columns = {name: own[name] for name in self._other_columns(clause)}
            columns |= values_of(_values(clause), sides, self._schema, table=self._target.store.root)
            if row_ids is not None:
                columns |= {row_ids.ids: own[row_ids.ids], row_ids.versions: pa.nulls(len(own), pa.int64())}
            yield from pa.table(columns).to_batches()


def _values(clause: MergeClause) -> Mapping[str, Value]:
    assert clause.values is not None
    return clause.values


def _distinct_positions(ascending: Rows) -> Rows:
    """Ascending positions, each once. NumPy's ``unique`` takes longer, because it does not use that they ascend."""
    return ascending[np.flatnonzero(np.diff(ascending, prepend=-1))]
