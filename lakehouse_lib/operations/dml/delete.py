"""Delete the rows for which a predicate is true; rows for which it is NULL stay.

If the table enables deletion vectors, the delete hides the rows by deletion vectors and writes no data file. Otherwise,
and for an erasure, it copies files without the rows. After such a copy, no file of the new version contains a matching
row, not even a row that a deletion vector hid before. Statistics may leave out hidden rows, so files with a deletion
vector are read regardless of their statistics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import is_true, strings
from lakehouse_lib.data_skipping import evaluate_partitions, may_match
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA
from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
)
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import deletion_vectors
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.dml.apply import APPLIED_SCHEMA, copy_files, mark_rows
from lakehouse_lib.operations.files import discard_paths, record_count, total_size
from lakehouse_lib.operations.replanning import commit_change
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import OptimisticTransaction
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: How often a delete is planned at most: the first time, and again after each conflict.
_ROUNDS = 10


@dataclass(frozen=True)
class DeletePlan:
    """The files that a delete will remove or read, from the log alone.

    Attributes:
        whole: files table of the files whose partition values show that all rows match.
        candidates: files table of the files that may have matching rows.
    """

    whole: pa.Table
    candidates: pa.Table


def plan_delete(snapshot: Snapshot, predicate: Predicate | None, *, rewrite: bool = True) -> DeletePlan:
    """The files to remove whole and the files to read. Reads no data.

    Args:
        predicate: None: every row.
        rewrite: also remove matching rows that deletion vectors hide. Statistics may leave out hidden rows, so a file
            with a deletion vector is skipped by its partition values only.
    """
    nothing = snapshot.files.slice(0, 0)
    if predicate is None:
        return DeletePlan(snapshot.files, nothing)
    candidates = snapshot.prune(predicate)
    if predicate.partition_only(snapshot.partition_columns):
        true = evaluate_partitions(predicate, candidates, snapshot.layout)
        return DeletePlan(candidates.filter(true), nothing)
    return DeletePlan(nothing, _with_hidden_rows(snapshot, predicate, candidates) if rewrite else candidates)


def _with_hidden_rows(snapshot: Snapshot, predicate: Predicate, candidates: pa.Table) -> pa.Table:
    """``candidates`` and the other files in which a deletion vector may hide matching rows."""
    if not pc.any(snapshot.file_columns(["deletionVector"])["deletionVector"].is_valid()).as_py():
        return candidates
    files = snapshot.files
    marked = files.filter(files["deletionVector"].is_valid())
    index = marked.column_names.index("stats")
    unbounded = marked.set_column(index, FILE_SCHEMA.field("stats"), pa.nulls(len(marked), pa.string()))
    may_match_flags = may_match(predicate, unbounded, snapshot.layout)
    unmarked = candidates.filter(candidates["deletionVector"].is_null())
    return pa.concat_tables([unmarked, marked.filter(may_match_flags)])


def delete(
    snapshot: Snapshot,
    predicate: Predicate | None,
    engine: Engine,
    *,
    rewrite: bool = False,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Delete matching rows in one commit. Files without a matching row are not changed.

    If winning commits added, rewrote or removed files that may match, the delete is planned again and reads only new
    files. So an append or a compaction does not make it fail.

    Args:
        rewrite: copy the remaining rows even if ``delta.enableDeletionVectors`` is true, so that no file of the new
            version has a deleted row.

    Returns:
        Metrics: numAddedFiles, numRemovedFiles, numAddedBytes, numRemovedBytes, numDeletedRows (None if files that are
        removed whole have no statistics), numCopiedRows, numDeletionVectorsAdded, numDeletionVectorsRemoved,
        executionTimeMs, scanTimeMs, rewriteTimeMs. A file that only gets a new deletion vector counts as neither added
        nor removed. If no row matches, all counts are 0 and nothing is committed, unless ``rewrite`` removes matching
        rows that deletion vectors hid.

    Raises:
        DeltaProtocolError: the table is append-only, or has a change data feed, or has row tracking and no property
            that names the column for row ids.
        CommitFailedError: a concurrent change of schema or protocol, or ten conflicts in a row.
        CommitUnknownError: the store gave no answer to the commit.
    """
    snapshot.check_writable()
    change = _Delete(predicate, engine, rewrite)
    committed = commit_change(snapshot, change, commit_properties)
    return ChangeResult(snapshot.store.root, *committed, change.metrics)


class _Delete:
    """A delete that can be planned on several versions; a ``Change``.

    Attributes:
        metrics: the metrics of the last plan.
    """

    replans = (ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError)

    def __init__(self, predicate: Predicate | None, engine: Engine, rewrite: bool) -> None:
        self._predicate = predicate
        self._engine = engine
        self._rewrite = rewrite
        self._started = time.monotonic()
        self._rounds = 0
        self._scanning = self._rewriting = 0.0
        self._looked_into = _NO_KEYS
        self._matches = _with_keys(pa.Table.from_batches([], MATCHES_SCHEMA), _NO_KEYS)
        self._applied = _with_keys(pa.Table.from_batches([], APPLIED_SCHEMA), _NO_KEYS)
        self._added = pa.Table.from_batches([], FILE_SCHEMA)
        self._written = pa.Table.from_batches([], FILE_SCHEMA)
        self._store: ObjectStore | None = None
        self.metrics: dict[str, Any] = {}

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction | None:
        self._rounds += 1
        if lost is not None and self._rounds > _ROUNDS:
            raise lost
        self._store = snapshot.store
        begun = time.monotonic()
        marks = not self._rewrite and deletion_vectors.are_written(snapshot.protocol, snapshot.metadata)
        plan = plan_delete(snapshot, self._predicate, rewrite=not marks)
        keys = file_keys(plan.candidates.select(KEY_COLUMNS), snapshot.store)
        self._look(snapshot, plan.candidates, keys)
        matched = time.monotonic()
        self._apply(snapshot, plan.candidates, keys, marks)
        self._scanning += matched - begun
        self._rewriting += time.monotonic() - matched
        results = self._results(keys)
        changed = plan.candidates.filter(pc.is_in(keys, value_set=results[_KEY].combine_chunks()))
        self._added = _files(results)
        removed = pa.concat_tables([plan.whole, changed])
        self.metrics = self._metrics(plan.whole, removed, results)
        return self._change(removed).on(snapshot, snapshot.store) if len(removed) else None

    def discard(self, *, committed: bool) -> None:
        if self._store is None:
            return
        # A file with a new vector existed before; only the vector was written.
        written = _stored(self._written, self._applied["source"], self._store)
        named = _stored(self._added, self._applied["source"], self._store) if committed else written.slice(0, 0)
        discard_paths(self._store, written.filter(pc.invert(pc.is_in(written, value_set=named))))

    def _look(self, snapshot: Snapshot, candidates: pa.Table, keys: pa.Array) -> None:
        """Match the rows of candidates that were not read before."""
        is_new = pc.invert(pc.is_in(keys, value_set=self._looked_into))
        files, new = candidates.filter(is_new), keys.filter(is_new)
        if self._predicate is None or not len(files):
            return
        matches = self._engine.match(snapshot, files, self._predicate)
        places = pc.index_in(matches["source"].combine_chunks(), files["path"].combine_chunks())
        self._matches = pa.concat_tables([self._matches, _with_keys(matches, new.take(places))])
        self._looked_into = pc.unique(pa.concat_arrays([self._looked_into, new]))

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
            applied = copy_files(snapshot, files, matches, self._engine)
        places = pc.index_in(applied["source"].combine_chunks(), files["path"].combine_chunks())
        self._applied = pa.concat_tables([self._applied, _with_keys(applied, matched.take(places))])
        self._written = pa.concat_tables([self._written, _files(applied)])

    def _results(self, keys: pa.Array) -> pa.Table:
        """The rows of APPLIED_SCHEMA for files with these keys."""
        return self._applied.filter(pc.is_in(self._applied[_KEY], value_set=keys))

    def _metrics(self, whole: pa.Table, removed: pa.Table, results: pa.Table) -> dict[str, Any]:
        gone = record_count(whole)
        is_marked = _is_marked(results)
        marked = pc.sum(is_marked).as_py() or 0
        marked_bytes = total_size(self._added.filter(self._added["deletionVector"].is_valid()))
        return {
            "numAddedFiles": len(self._added) - marked,
            "numRemovedFiles": len(removed) - marked,
            "numAddedBytes": total_size(self._added) - marked_bytes,
            "numRemovedBytes": total_size(removed) - marked_bytes,
            "numDeletedRows": None if gone is None else gone + (pc.sum(results["deleted"]).as_py() or 0),
            "numCopiedRows": pc.sum(results.filter(pc.invert(is_marked))["remaining"]).as_py() or 0,
            "numDeletionVectorsAdded": marked,
            "numDeletionVectorsRemoved": len(removed) - removed["deletionVector"].null_count,
            "executionTimeMs": int((time.monotonic() - self._started) * 1000),
            "scanTimeMs": int(self._scanning * 1000),
            "rewriteTimeMs": int(self._rewriting * 1000),
        }

    def _change(self, removed: pa.Table) -> TableChange:
        return TableChange(
            "DELETE",
            {"predicate": [] if self._predicate is None else [self._predicate.text]},
            self._added,
            removed,
            reads=(self._predicate,),
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


def _is_marked(applied: pa.Table) -> pa.ChunkedArray:
    """Which changed files keep their data file and get a new deletion vector."""
    return is_true(pc.equal(applied["path"], applied["source"]))


def _stored(files: pa.Table, sources: pa.ChunkedArray, store: ObjectStore) -> pa.Array:
    """The store paths of the objects that the delete wrote: new data files, and the files of deletion vectors."""
    is_new = pc.invert(pc.is_in(files["path"], value_set=sources.combine_chunks()))
    data = file_paths.canonical(files["path"].filter(is_new), store)
    return pa.concat_arrays([data, deletion_vector.paths_of(store, files["deletionVector"])])
