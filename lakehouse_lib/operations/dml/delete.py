"""Delete the rows for which a predicate is true. Rows for which it is NULL stay.

If the table enables deletion vectors, the delete hides the rows by deletion vectors and writes no data file. Otherwise,
and with ``rewrite`` (for an erasure), it copies the remaining rows of the files to new files. After such a copy, no
file of the new version contains a matching row, not even a row that a deletion vector hid before. Statistics may leave
out hidden rows, so a copy selects files with a deletion vector without their statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.data_skipping import evaluate_partitions, may_match
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.change_files import changed_rows
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.dml.row_change import MatchedRows, PredicateOperation, RowChangePlan
from lakehouse_lib.operations.dml.single_change import change_once
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_delete(snapshot: Snapshot, predicate: Predicate | None, *, rewrite: bool = True) -> RowChangePlan:
    """The files to remove with all rows, and the files to read. Reads no data.

    Args:
        predicate: None: every row.
        rewrite: also remove matching rows that deletion vectors hide. Statistics may leave out hidden rows, so a file
            with a deletion vector is skipped by its partition values only.
    """
    no_files = snapshot.files.slice(0, 0)
    if predicate is None:
        return RowChangePlan(snapshot.files, no_files)
    candidates = snapshot.prune(predicate)
    if predicate.partition_only(snapshot.partition_columns):
        matches = evaluate_partitions(predicate, candidates, snapshot.layout)
        return RowChangePlan(candidates.filter(matches), no_files)
    return RowChangePlan(no_files, _with_hidden_rows(snapshot, predicate, candidates) if rewrite else candidates)


def _with_hidden_rows(snapshot: Snapshot, predicate: Predicate, candidates: pa.Table) -> pa.Table:
    """``candidates``, and all other files in which a deletion vector may hide matching rows."""
    if not pc.any(snapshot.file_columns(["deletionVector"])["deletionVector"].is_valid()).as_py():
        return candidates
    files = snapshot.files
    with_vector = files.filter(files["deletionVector"].is_valid())
    index = with_vector.column_names.index("stats")
    without_stats = with_vector.set_column(index, FILE_SCHEMA.field("stats"), pa.nulls(len(with_vector), pa.string()))
    may_match_flags = may_match(predicate, without_stats, snapshot.layout)
    without_vector = candidates.filter(candidates["deletionVector"].is_null())
    return pa.concat_tables([without_vector, with_vector.filter(may_match_flags)])


def delete(
    snapshot: Snapshot,
    predicate: Predicate | None,
    engine: Engine,
    *,
    rewrite: bool = False,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Delete matching rows in one commit. Files without a matching row are not changed.

    If winning commits added, rewrote or removed files that may match, the delete is planned again, and reads only files
    that it has not read before. So a concurrent append or compaction does not make the delete fail.

    Args:
        predicate: None: every row.
        rewrite: copy the remaining rows even if ``delta.enableDeletionVectors`` is true, so that no file of the new
            version has a deleted row.

    Returns:
        Metrics: numAddedFiles, numRemovedFiles, numAddedBytes, numRemovedBytes, numDeletedRows (None if files that are
        removed whole have no statistics), numCopiedRows, numDeletionVectorsAdded, numDeletionVectorsUpdated,
        numDeletionVectorsRemoved, executionTimeMs, scanTimeMs, rewriteTimeMs. A file that only gets a new deletion
        vector counts as neither added nor removed. If no row matches, all counts are 0 and nothing is committed, unless
        ``rewrite`` removes matching rows that deletion vectors hid.

    Raises:
        DeltaProtocolError: the table is append-only, or has row tracking and no property that names the column for row
            ids.
        CommitFailedError: a concurrent change of schema or protocol, or 100 consecutive conflicts.
        CommitUnknownError: the store gave no answer to the commit.
    """
    snapshot.check_writable()
    operation = _Delete(predicate, engine, writer_properties)
    return change_once(snapshot, operation, engine, rewrite=rewrite, commit_properties=commit_properties)


@dataclass(frozen=True)
class _Delete(PredicateOperation):
    """The ``RowOperation`` of a DELETE."""

    name = "DELETE"
    writes_rows = False

    def plan(self, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:
        return plan_delete(snapshot, self.predicate, rewrite=not marks)

    def match(self, snapshot: Snapshot, files: pa.Table, metadata: Metadata | None) -> MatchedRows:  # noqa: ARG002
        matches = self.matches(snapshot, files)
        return MatchedRows(matches, changed_rows("delete", files, matches))

    def spark_metrics(self, metrics: dict[str, Any]) -> dict[str, Any]:
        return metrics
