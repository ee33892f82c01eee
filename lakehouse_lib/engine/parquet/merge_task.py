"""A task of a MERGE: joins files of a target with the source, and writes the rows with new values.

A task reads its files in row groups, so its memory grows with the source and with the number of changed rows, not with
the target. The first pass reads the columns of the conditions and decides about each row. The second pass reads the
rows to update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import bools, flags_of, int64s
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.merge_plan import MergeCase, MergeClause, MergePlan
from lakehouse_lib.engine.parquet.key_join import KeyJoin
from lakehouse_lib.engine.parquet.matching import matches_table, rows_at
from lakehouse_lib.engine.parquet.merge_sides import (
    columns_of_sides,
    first_clauses,
    one_side,
    pairs_of_rows,
    portions,
    row_sizes,
    structs_of,
)
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.engine.parquet.task_results import result_of
from lakehouse_lib.engine.parquet.writer import write_checked
from lakehouse_lib.engine.shared import Shared
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import matches, values_of
from lakehouse_lib.expressions.namespace import SOURCE, TARGET
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.deletion_vector import bitmap_of

Rows = NDArray[np.int64]

#: Pairs of a target row and a source row that are evaluated at a time.
_PAIRS = 1 << 18
#: Rows of the target that are joined at a time; a larger row group is joined whole.
_BATCH = 1 << 18
#: The most rows that an error shows.
_SHOWN = 10


@dataclass(frozen=True)
class MergeTask:
    """A task that merges a source into files.

    Attributes:
        target: the table; its layout has ``row_ids`` if rows keep their row ids.
        files: COPIED_COLUMNS of the files.
        shared: all rows of the source, and their ``KeyJoin`` by ``plan.keys``; None for a plan without keys.
    """

    target: WriteTarget
    files: pa.Table
    plan: MergePlan
    shared: Shared


class TaskResult(NamedTuple):
    """The result of a task.

    Attributes:
        matched: the rows of the source that match a row of the task's files.
    """

    matches: pa.Table
    new_files: pa.Table
    counts: Mapping[str, int]
    matched: BitMap64


def run_merge_task(task: MergeTask) -> pa.Table:
    """Run a merge task. The result (RESULT_SCHEMA) holds a ``TaskResult``."""
    return result_of(_MergeRun(task).run)


@dataclass
class _Changes:
    """The rows of one file about which a clause decides: positions, numbers of clauses, source rows (-1: none)."""

    positions: list[Rows] = field(default_factory=list)
    clauses: list[Rows] = field(default_factory=list)
    sources: list[Rows] = field(default_factory=list)

    def by_position(self) -> tuple[Rows, Rows, Rows]:
        """Positions, clauses and source rows, by ascending position."""
        no_rows = np.zeros(0, np.int64)
        columns = [np.concatenate([no_rows, *parts]) for parts in (self.positions, self.clauses, self.sources)]
        order = np.argsort(columns[0], kind="stable")
        return columns[0][order], columns[1][order], columns[2][order]


class _MergeRun:
    """A merge task while it runs."""

    def __init__(self, task: MergeTask) -> None:
        self._files = task.files
        self._plan = task.plan
        source, join = task.shared.load()
        self._source: pa.Table = source
        self._join: KeyJoin | None = join
        self._target = task.target
        self._layout = replace(task.target.layout, row_ids=None)
        self._schema = task.target.layout.schema
        self._changes = [_Changes() for _ in range(len(task.files))]
        self._row_counts = [0] * len(task.files)
        self._matched = [BitMap64() for _ in range(len(task.files))]
        self._matched_sources = np.zeros(len(source), np.bool_)
        self._counts: dict[str, int] = {}

    def run(self) -> TaskResult:
        """Decide about all rows, and write the rows with new values."""
        self._decide_matched()
        if self._plan.of("not matched by source"):
            self._decide_unmatched()
        decided = [changes.by_position() for changes in self._changes]
        for index, (positions, _, _) in enumerate(decided):
            self._check_once(index, positions)
        new_files = write_checked(self._new_rows(decided), self._target)
        changed = [index for index, (positions, _, _) in enumerate(decided) if len(positions)]
        paths = self._files["path"].to_pylist()
        removed_rows = matches_table(
            [paths[index] for index in changed],
            [self._row_counts[index] for index in changed],
            [bitmap_of(np.unique(decided[index][0])).serialize() for index in changed],
        )
        return TaskResult(removed_rows, new_files, self._counts, bitmap_of(np.flatnonzero(self._matched_sources)))

    # First pass: which clause decides about a row.

    def _decide_matched(self) -> None:
        clauses = self._plan.of("matched")
        conditions = [self._plan.condition, *(clause.condition for clause in clauses if clause.condition is not None)]
        target_names, source_names = columns_of_sides(conditions)
        target_names |= {target for target, _ in self._plan.keys}
        for files, positions, rows in self._batches(sorted(target_names)):
            for target_rows, source_rows in self._portions(rows, source_names):
                pairs = pairs_of_rows(rows, target_rows, self._source, source_rows, source_names)
                is_match = flags_of(matches(self._plan.condition, pairs))
                target_rows, source_rows = target_rows[is_match], source_rows[is_match]
                self._matched_sources[source_rows] = True
                chosen = first_clauses(clauses, pairs.filter(bools(is_match)))
                matched_files, matched_positions = files[target_rows], positions[target_rows]
                for index in np.unique(matched_files).tolist():
                    own = matched_files == index
                    self._matched[index] |= bitmap_of(np.unique(matched_positions[own]))
                    self._decide(index, matched_positions[own], chosen[own], source_rows[own], clauses)

    def _decide_unmatched(self) -> None:
        clauses = self._plan.of("not matched by source")
        names, _ = columns_of_sides([clause.condition for clause in clauses if clause.condition is not None])
        for index, positions, rows in self._scan(sorted(names)):
            first, last = int(positions[0]), int(positions[-1])
            is_unmatched = deletion_vector.kept_rows(self._matched[index], first, last - first + 1)
            is_selected = flags_of(is_unmatched)[positions - first]
            chosen = first_clauses(clauses, one_side(TARGET, rows.filter(bools(is_selected))))
            unmatched_positions = positions[is_selected]
            self._decide(index, unmatched_positions, chosen, np.full(len(unmatched_positions), -1), clauses)

    def _batches(self, names: list[str]) -> Iterator[tuple[Rows, Rows, pa.Table]]:
        """For one or several row groups: the file's number and the position of each live row, and these columns.

        Each join costs at least a pass over the source's keys, so small row groups are joined together.
        """
        pending: list[tuple[int, Rows, pa.Table]] = []

        def batch() -> tuple[Rows, Rows, pa.Table]:
            files = np.concatenate([np.full(len(positions), index) for index, positions, _ in pending])
            return files, np.concatenate([entry[1] for entry in pending]), pa.concat_tables(e[2] for e in pending)

        pending_rows = 0
        for entry in self._scan(names):
            pending.append(entry)
            pending_rows += len(entry[1])
            if pending_rows >= _BATCH:
                yield batch()
                pending.clear()
                pending_rows = 0
        if pending:
            yield batch()

    def _decide(
        self, index: int, positions: Rows, chosen: Rows, source_rows: Rows, clauses: Sequence[MergeClause]
    ) -> None:
        """Record the rows about which a clause decides.

        Args:
            chosen: for each row the number of its clause in ``clauses``; -1: no clause.
        """
        # The numbers of the clauses in the plan. Without clauses, ``chosen`` has only -1, which needs an entry, too.
        numbers = np.array([self._plan.clauses.index(clause) for clause in clauses] or [0])
        is_decided = chosen >= 0
        changes = self._changes[index]
        changes.positions.append(positions[is_decided])
        changes.clauses.append(numbers[chosen[is_decided]])
        changes.sources.append(source_rows[is_decided])

    def _portions(self, rows: pa.Table, source_names: set[str]) -> Iterator[tuple[Rows, Rows]]:
        """The pairs of ``_candidates`` in portions that fit into memory as tables."""
        sizes, source_sizes = row_sizes(rows), row_sizes(self._source.select(sorted(source_names)))
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

    def _scan(self, names: list[str]) -> Iterator[tuple[int, Rows, pa.Table]]:
        """For each row group: the file's number, the positions of its live rows, and these columns of the live rows."""
        # A row group without columns has no rows, so at least one column is read.
        schema = self._layout.columns(names or self._layout.data_columns.names[:1])
        reader = TableReader(self._target.store, self._layout, schema)
        for index, (file, constants) in enumerate(reader.files(self._files)):
            self._row_counts[index] = file.metadata.num_rows
            for group in range(file.num_row_groups):
                if file.live_rows_of(group):
                    rows = reader.row_group(file, group, constants)
                    live = file.live_mask(group)
                    places = np.arange(len(rows)) if live is None else np.flatnonzero(flags_of(live))
                    yield index, file.starts[group] + places, rows

    def _check_once(self, index: int, positions: Rows) -> None:
        """Refuse several source rows for one target row, unless all matched rows are deleted."""
        if self._plan.deletes_every_match or not len(positions):
            return
        repeated_positions = np.unique(positions[1:][positions[1:] == positions[:-1]])
        if not len(repeated_positions):
            return
        names = [target for target, _ in self._plan.keys] or self._schema.names[:3]
        reader = TableReader(self._target.store, self._layout, self._schema)
        rows = next(rows_at(reader, self._files.slice(index, 1), [bitmap_of(repeated_positions[:_SHOWN]).serialize()]))
        raise InvalidArgumentError(
            f"several rows of the source match one row of the target: {rows.select(names).to_pylist()}",
            table=self._target.store.root,
            hint="Leave one row of the source for each row of the target, for example by an aggregate",
            code="DELTA_MULTIPLE_SOURCE_ROWS_MATCH",
        )

    # Second pass: the rows to write.

    def _new_rows(self, decided: Sequence[tuple[Rows, Rows, Rows]]) -> Iterator[pa.RecordBatch]:
        for index, (positions, clauses, sources) in enumerate(decided):
            yield from self._update(index, positions, clauses, sources)

    def _update(self, index: int, positions: Rows, clauses: Rows, sources: Rows) -> Iterator[pa.RecordBatch]:
        """The updated rows of a file. Also counts the updated and the deleted rows."""
        actions = np.array([clause.action for clause in self._plan.clauses])
        for number, clause in enumerate(self._plan.clauses):
            distinct = len(np.unique(positions[clauses == number]))
            if clause.action != "insert":
                self._count(clause.case, f"{clause.action}d", distinct)
        is_update = actions[clauses] == "update"
        positions, clauses, sources = positions[is_update], clauses[is_update], sources[is_update]
        if not len(positions):
            return
        reader = TableReader(self._target.store, self._target.layout, self._schema)
        start = 0
        for rows in rows_at(reader, self._files.slice(index, 1), [bitmap_of(positions).serialize()]):
            part = slice(start, start + len(rows))
            start += len(rows)
            for number in np.unique(clauses[part]):
                is_own = clauses[part] == number
                own = rows.filter(bools(is_own))
                yield from self._with_values(self._plan.clauses[number], own, sources[part][is_own])

    def _with_values(self, clause: MergeClause, rows: pa.Table, source_rows: Rows) -> Iterator[pa.RecordBatch]:
        """Rows of the target with the values of a clause."""
        assert clause.values is not None
        _, names = columns_of_sides([*clause.values.values()])
        source = self._source.select(sorted(names))
        # If the clause reads no column of the source, its rows may match no row of the source (-1).
        sizes = row_sizes(source)[source_rows] if names else np.zeros(len(rows), np.int64)
        for part in portions(sizes):
            own = rows.slice(part.start, part.stop - part.start)
            sides = one_side(TARGET, own.select(self._schema.names))
            if names:
                sides = sides.append_column(SOURCE, structs_of(source.take(int64s(source_rows[part]))))
            columns = dict(zip(own.column_names, own.columns, strict=True))
            columns |= values_of(clause.values, sides, self._schema, table=self._target.store.root)
            if self._target.layout.row_ids is not None:
                columns[self._target.layout.row_ids.versions] = pa.nulls(len(own), pa.int64())
            yield from pa.table(columns).to_batches()

    def _count(self, case: MergeCase, kind: str, rows: int) -> None:
        for name in (kind, f"{case}: {kind}"):
            self._counts[name] = self._counts.get(name, 0) + rows
