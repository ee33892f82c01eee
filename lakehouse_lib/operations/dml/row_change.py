"""Change single rows of a table: match rows, apply the change to their files, commit.

DELETE, UPDATE, MERGE and an overwrite by a predicate use this module. The matching rows are removed from their files,
by deletion vectors or by copies of the files without them. New rows and rows with new values are written to new files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, is_true, literal, strings
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
)
from lakehouse_lib.expressions import EVERY_ROW, Predicate
from lakehouse_lib.features import deletion_vectors
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.dml.apply import APPLIED_SCHEMA, copy_files, mark_rows
from lakehouse_lib.operations.dml.change_data import ChangeData
from lakehouse_lib.operations.files import discard_paths, record_count, total_size
from lakehouse_lib.operations.optimize.auto_compact import compact_after_write
from lakehouse_lib.operations.replanning import commit_change
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: The maximum number of plans of a change: the first one, and one after each conflict. Among many writers of one small
#: table, a change may lose every second race, so ten plans are too few.
_ROUNDS = 100
#: The conflicts about files, after which a change can be planned again.
FILE_CONFLICTS: tuple[type[CommitFailedError], ...] = (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ConcurrentDeleteDeleteError,
)


@dataclass(frozen=True)
class RowChangePlan:
    """The files that a row change will remove or read, from the log alone.

    Attributes:
        whole_files: files table of the files that are removed with all rows.
        candidates: files table of the files that may have matching rows.
        metadata: the table's metadata after the change; None: unchanged.
    """

    whole_files: pa.Table
    candidates: pa.Table
    metadata: Metadata | None = None


@dataclass(frozen=True)
class MatchedRows:
    """The rows that a change removes from their files, and the rows that it writes.

    Attributes:
        matches: the rows to remove, as MATCHES_SCHEMA.
        changed: all rows that the change inserts, updates or deletes, as CHANGED_ROWS_SCHEMA.
        new_files: files table of the files with new rows.
        counts: operationMetrics that only the operation knows, such as numUpdatedRows.
        metadata: the table's metadata after the change, if the new rows change it; None: the metadata of the plan.
    """

    matches: pa.Table
    changed: pa.Table
    new_files: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], FILE_SCHEMA))
    counts: Mapping[str, int] = field(default_factory=dict)
    metadata: Metadata | None = None


class RowOperation(Protocol):
    """The part of a row change that depends on the operation, such as DELETE or UPDATE.

    Attributes:
        name: commitInfo's operation.
        parameters: commitInfo's operationParameters.
        reads: the predicates of the rows that the operation reads; None among them: the whole table.
        writes_rows: whether the operation writes rows. If so, all rows are matched again after a conflict, because a
            row may have changed, or moved to another file. If not, only files that were not read before are matched.
        writer_properties: how the Parquet files are written.
        replans: the conflicts after which the operation is planned again on the latest version.
        commits_always: whether the operation makes a commit even if no row changes.
    """

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    @property
    def reads(self) -> tuple[Predicate | None, ...]: ...

    @property
    def writes_rows(self) -> bool: ...

    @property
    def writer_properties(self) -> WriterProperties | None: ...

    @property
    def replans(self) -> tuple[type[CommitFailedError], ...]: ...

    @property
    def commits_always(self) -> bool: ...

    def plan(self, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:
        """The files to remove with all rows, and the files to read. Reads no data.

        Args:
            marks: whether the change hides rows by deletion vectors.
        """

    def match(self, snapshot: Snapshot, files: pa.Table, metadata: Metadata | None) -> MatchedRows:
        """Match rows of candidates, and write the new rows.

        Args:
            files: some of the plan's candidates, possibly none.
            metadata: the metadata of the plan.
        """

    def spark_metrics(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """The metrics of ``change_rows`` under the names that delta-spark has for the operation."""


@dataclass(frozen=True)
class PredicateOperation:
    """The base class of a ``RowOperation`` that changes the rows for which a predicate is true (None: every row)."""

    predicate: Predicate | None
    engine: Engine
    writer_properties: WriterProperties | None

    replans = FILE_CONFLICTS
    commits_always = False

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"predicate": [] if self.predicate is None else [self.predicate.text]}

    @property
    def reads(self) -> tuple[Predicate | None, ...]:
        return (self.predicate,)

    def matches(self, snapshot: Snapshot, files: pa.Table) -> pa.Table:
        """The matching rows of files, as MATCHES_SCHEMA; includes rows that deletion vectors hide."""
        return self.engine.match(snapshot, files, self.predicate or EVERY_ROW)


def change_rows(
    snapshot: Snapshot,
    operation: RowOperation,
    engine: Engine,
    *,
    rewrite: bool = False,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Change rows in one commit. Files without a matching row are not changed.

    After a conflict in the operation's ``replans``, the change is planned again.

    Args:
        rewrite: copy the remaining rows even if ``delta.enableDeletionVectors`` is true.

    Returns:
        Metrics, under the operation's names: numAddedFiles, numRemovedFiles, numAddedBytes, numRemovedBytes,
        numDeletedRows (None if files that are removed whole have no statistics), numCopiedRows,
        numDeletionVectorsAdded, numDeletionVectorsUpdated, numDeletionVectorsRemoved, executionTimeMs, scanTimeMs,
        rewriteTimeMs, and the operation's counts. A vector that replaces another vector counts as added, updated and
        removed. A file that only gets a new deletion vector counts as neither added nor removed. If no row matches and
        none is written, all counts are 0, and nothing is committed unless the operation ``commits_always``.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or 100 consecutive conflicts.
        CommitUnknownError: the store gave no answer to the commit.
    """
    change = RowChange(operation, engine, rewrite)
    committed = commit_change(snapshot, change, commit_properties)
    result = ChangeResult(snapshot.store.root, *committed, change.metrics)
    properties = snapshot.configuration
    return compact_after_write(result, change.added, properties, snapshot.update, engine, commit_properties)


class RowChange:
    """The ``Change`` of a row operation, which can be planned on several versions.

    Attributes:
        metrics: the metrics of the last plan.
        added: a files table of the files that the last plan adds.
    """

    def __init__(self, operation: RowOperation, engine: Engine, rewrite: bool) -> None:
        self.replans = operation.replans
        self._operation = operation
        self._engine = engine
        self._rewrite = rewrite
        self._started = time.monotonic()
        self._losses = 0
        self._scanning = self._rewriting = 0.0
        self.added = pa.Table.from_batches([], FILE_SCHEMA)
        self._written = pa.Table.from_batches([], FILE_SCHEMA)
        self._sources = _NO_KEYS
        self._store: ObjectStore | None = None
        self._change_data = ChangeData(engine, operation.writer_properties)
        self.metrics: dict[str, Any] = {}
        self._forget()

    def _forget(self) -> None:
        """Forget all matches, so that the next plan reads every candidate."""
        self._read_keys = _NO_KEYS
        self._matches = _with_keys(pa.Table.from_batches([], MATCHES_SCHEMA), _NO_KEYS)
        self._applied = _with_keys(pa.Table.from_batches([], APPLIED_SCHEMA), _NO_KEYS)
        self._new = pa.Table.from_batches([], FILE_SCHEMA)
        self._change_data.forget()
        self._counts: dict[str, int] = {}
        self._has_matched = False
        self._metadata: Metadata | None = None

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction | None:
        if lost is not None:
            self._losses += 1
            if self._losses >= _ROUNDS:
                raise lost
        if lost is not None and self._operation.writes_rows:
            self._forget()
        self._store = snapshot.store
        start = time.monotonic()
        marks = not self._rewrite and deletion_vectors.are_written(snapshot.protocol, snapshot.metadata)
        plan = self._operation.plan(snapshot, marks=marks)
        keys = file_keys(plan.candidates.select(KEY_COLUMNS), snapshot.store)
        self._look(snapshot, plan, keys)
        end_of_scan = time.monotonic()
        self._apply(snapshot, plan.candidates, keys, marks)
        results = self._results(keys)
        changed_keys, copies = results[_KEY].combine_chunks(), self._copied_rows(results)
        self._change_data.write(snapshot, plan.metadata, plan.whole_files, changed_keys, copies_rows=copies > 0)
        self._scanning += end_of_scan - start
        self._rewriting += time.monotonic() - end_of_scan
        changed = plan.candidates.filter(pc.is_in(keys, value_set=changed_keys))
        is_change = pa.repeat(literal(not self._change_data.moves_rows, pa.bool_()), len(results))
        replaced = results.set_column(results.column_names.index("dataChange"), "dataChange", is_change)
        self.added = pa.concat_tables([_files(replaced), self._new])
        removed = pa.concat_tables([plan.whole_files, changed])
        self.metrics = self._metrics(plan.whole_files, removed, results)
        metadata = self._metadata or plan.metadata
        has_change = len(removed) or len(self._new) or metadata is not None or self._operation.commits_always
        return self._change(removed, metadata).on(snapshot, snapshot.store) if has_change else None

    def zero_metrics(self) -> dict[str, Any]:
        """The metrics of a change that changes no row; call this only before the first plan."""
        return self._metrics(self.added, self.added, self._applied)

    def discard(self, *, committed: bool) -> None:
        if self._store is None:
            return
        # The data file of a new vector existed before; only the vector was written.
        written = _stored(self._written, self._sources, self._store)
        committed_paths = _stored(self.added, self._sources, self._store) if committed else written.slice(0, 0)
        discard_paths(self._store, written.filter(pc.invert(pc.is_in(written, value_set=committed_paths))))
        self._change_data.discard(self._store, committed=committed)

    def _look(self, snapshot: Snapshot, plan: RowChangePlan, keys: pa.Array) -> None:
        """Match the rows of candidates that were not read before."""
        is_new = pc.invert(pc.is_in(keys, value_set=self._read_keys))
        files, new = plan.candidates.filter(is_new), keys.filter(is_new)
        # A merge without candidates may still insert rows.
        if not len(files) and (self._has_matched or not self._operation.writes_rows):
            return
        matched = self._operation.match(snapshot, files, plan.metadata)
        self._has_matched = True
        self._metadata = matched.metadata
        places = pc.index_in(matched.matches["source"].combine_chunks(), files["path"].combine_chunks())
        self._matches = pa.concat_tables([self._matches, _with_keys(matched.matches, new.take(places))])
        self._read_keys = pc.unique(pa.concat_arrays([self._read_keys, new]))
        self._change_data.add(matched.changed)
        self._new = pa.concat_tables([self._new, matched.new_files])
        self._written = pa.concat_tables([self._written, matched.new_files])
        for name, count in matched.counts.items():
            self._counts[name] = self._counts.get(name, 0) + count

    def _apply(self, snapshot: Snapshot, candidates: pa.Table, keys: pa.Array, marks: bool) -> None:
        """Hide the matching rows of candidates, or copy the files without these rows.

        Files that an earlier plan has already changed are left out.
        """
        pending = pc.and_not(
            pc.is_in(self._matches[_KEY], value_set=keys),
            pc.is_in(self._matches[_KEY], value_set=self._applied[_KEY].combine_chunks()),
        )
        matches = self._matches.filter(pending)
        matched = matches[_KEY].combine_chunks()
        files = candidates.take(pc.index_in(matched, value_set=keys))
        if not len(files):
            return
        if marks:
            applied = mark_rows(files, matches, snapshot.store)
        else:
            properties = self._operation.writer_properties
            applied = copy_files(snapshot, files, matches, self._engine, writer_properties=properties)
        places = pc.index_in(applied["source"].combine_chunks(), files["path"].combine_chunks())
        self._applied = pa.concat_tables([self._applied, _with_keys(applied, matched.take(places))])
        self._written = pa.concat_tables([self._written, _files(applied)])
        self._sources = pa.concat_arrays([self._sources, applied["source"].combine_chunks()])

    def _results(self, keys: pa.Array) -> pa.Table:
        """The rows of APPLIED_SCHEMA for files with these keys."""
        return self._applied.filter(pc.is_in(self._applied[_KEY], value_set=keys))

    def _copied_rows(self, results: pa.Table) -> int:
        copied = results.filter(pc.invert(_is_marked(results)))
        return int(pc.sum(copied["remaining"]).as_py() or 0)

    def _metrics(self, whole_files: pa.Table, removed: pa.Table, results: pa.Table) -> dict[str, Any]:
        whole_rows = record_count(whole_files)
        is_marked = _is_marked(results)
        marked = pc.sum(is_marked).as_py() or 0
        marked_bytes = total_size(self.added.filter(self.added["deletionVector"].is_valid()))
        metrics = {
            "numAddedFiles": len(self.added) - marked,
            "numRemovedFiles": len(removed) - marked,
            "numAddedBytes": total_size(self.added) - marked_bytes,
            "numRemovedBytes": total_size(removed) - marked_bytes,
            "numDeletedRows": None if whole_rows is None else whole_rows + (pc.sum(results["deleted"]).as_py() or 0),
            "numCopiedRows": self._copied_rows(results),
            "numDeletionVectorsAdded": marked,
            "numDeletionVectorsUpdated": _with_vectors(removed, among=results.filter(is_marked)["source"]),
            "numDeletionVectorsRemoved": _with_vectors(removed),
            **self._counts,
            **self._change_data.metrics,
            "executionTimeMs": int((time.monotonic() - self._started) * 1000),
            "scanTimeMs": int(self._scanning * 1000),
            "rewriteTimeMs": int(self._rewriting * 1000),
        }
        return self._operation.spark_metrics(metrics)

    def _change(self, removed: pa.Table, metadata: Metadata | None) -> TableChange:
        return TableChange(
            self._operation.name,
            self._operation.parameters,
            self.added,
            removed,
            self._change_data.files,
            metadata=metadata,
            reads=self._operation.reads,
            moves_rows=self._change_data.moves_rows,
            keeps_row_ids=True,
            metrics={name: value for name, value in self.metrics.items() if value is not None},
        )


_KEY = "key"
_NO_KEYS = strings([])


def _with_keys(results: pa.Table, keys: pa.Array) -> pa.Table:
    return results.append_column(_KEY, keys)


def _files(applied: pa.Table) -> pa.Table:
    """The files table of the files that replace changed files."""
    return applied.filter(pc.is_valid(applied["path"])).select(FILE_SCHEMA.names).cast(FILE_SCHEMA)


def _with_vectors(files: pa.Table, *, among: pa.ChunkedArray | None = None) -> int:
    """The number of files with a deletion vector; ``among``: only files with these paths are counted."""
    vectors = files["deletionVector"].is_valid()
    flags = vectors if among is None else pc.and_(vectors, pc.is_in(files["path"], value_set=as_array(among)))
    return pc.sum(flags).as_py() or 0


def _is_marked(applied: pa.Table) -> pa.ChunkedArray:
    """For each changed file, whether its data file stays and gets a new deletion vector."""
    return is_true(pc.equal(applied["path"], applied["source"]))


def _stored(files: pa.Table, sources: pa.Array, store: ObjectStore) -> pa.Array:
    """The store paths of the objects that the change wrote: new data files, and the files of deletion vectors."""
    is_new = pc.invert(pc.is_in(files["path"], value_set=sources))
    data = file_paths.canonical(files["path"].filter(is_new), store)
    return pa.concat_arrays([data, deletion_vector.paths_of(store, files["deletionVector"])])
