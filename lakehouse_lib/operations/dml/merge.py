"""Merge the rows of a source into a table: update, delete and insert rows in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.merge_plan import MergeClause, MergePlan
from lakehouse_lib.engine.parquet.merge.merging import merge_rows
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import CommitFailedError, InvalidArgumentError, InvalidPredicateError, MetadataChangedError
from lakehouse_lib.expressions import Predicate, Value, conjoin, from_filters
from lakehouse_lib.expressions.ir import Column, Node, Opaque, conjunction, walk
from lakehouse_lib.expressions.namespace import TARGET
from lakehouse_lib.expressions.predicate import sql_excerpt
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.features import check_removal
from lakehouse_lib.features.computed_columns.identity_columns import check_assigned, with_high_water_marks
from lakehouse_lib.operations.dml.key_pruning import files_with_keys
from lakehouse_lib.operations.dml.merge_keys import conjuncts, keys_of, with_computed_keys
from lakehouse_lib.operations.dml.row_change import FILE_CONFLICTS, MatchedRows, RowChangePlan
from lakehouse_lib.operations.dml.single_change import change_once
from lakehouse_lib.operations.dml.update import update_target
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.operations.write.wider_schema import with_new_columns
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import Field, PrimitiveType, Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties

#: Up to this many distinct keys of a source are compared with statistics one by one. If a source has more keys, only
#: their range is compared.
_MOST_LISTED = 200
#: A double has the exact value of each integer below this number.
_MOST_EXACT = 1 << 53

#: The name of each operationMetric in delta-spark, by its name in a row change.
_METRIC_NAMES = {
    "numAddedFiles": "numTargetFilesAdded",
    "numRemovedFiles": "numTargetFilesRemoved",
    "numAddedBytes": "numTargetBytesAdded",
    "numRemovedBytes": "numTargetBytesRemoved",
    "numCopiedRows": "numTargetRowsCopied",
    "numDeletionVectorsAdded": "numTargetDeletionVectorsAdded",
    "numDeletionVectorsRemoved": "numTargetDeletionVectorsRemoved",
    "numDeletionVectorsUpdated": "numTargetDeletionVectorsUpdated",
    "numAddedChangeFiles": "numTargetChangeFilesAdded",
}
#: The name of each count of merged rows in delta-spark, by its name in ``merge_rows``.
_COUNTS = {
    "inserted": "numTargetRowsInserted",
    "updated": "numTargetRowsUpdated",
    "deleted": "numTargetRowsDeleted",
    "matched: updated": "numTargetRowsMatchedUpdated",
    "matched: deleted": "numTargetRowsMatchedDeleted",
    "not matched by source: updated": "numTargetRowsNotMatchedBySourceUpdated",
    "not matched by source: deleted": "numTargetRowsNotMatchedBySourceDeleted",
}


def merge(
    snapshot: Snapshot,
    source: pa.Table,
    condition: Predicate,
    clauses: tuple[MergeClause, ...],
    engine: Engine,
    *,
    merges_schema: bool = False,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Merge a source in one commit. Files without a changed row are not changed.

    A row of the target and a row of the source match if the condition is true. Updated and deleted rows are removed
    from their files as by ``delete``. Updated rows keep their row ids. If a winning commit changed rows or files that
    may match, all rows are matched again on the latest version.

    Args:
        source: all rows of the source.
        condition: on the columns of a ``MergeNamespace`` of the table and the source.
        clauses: the clauses in order. A row belongs to one case (matched, not matched, not matched by source). The
            first clause of this case whose condition is true is applied to the row.
        merges_schema: the table gets the columns and nested fields that only the source has, if a clause assigns a
            value to them.

    Returns:
        Metrics under delta-spark's names: numSourceRows, numOutputRows, numTargetRowsInserted, numTargetRowsUpdated,
        numTargetRowsDeleted, numTargetRowsCopied, numTargetFilesAdded, numTargetFilesRemoved,
        numTargetDeletionVectorsAdded, executionTimeMs, scanTimeMs, rewriteTimeMs and others. If neither rows nor the
        schema change, nothing is committed.

    Raises:
        InvalidArgumentError: no clause is given, or several rows of the source match one row that would change.
        InvalidPredicateError: the engine cannot evaluate a condition or a value.
        SchemaMismatchError: a value is out of the range of its column; nothing is committed.
        ConstraintViolatedError: a new row violates a rule of the table; nothing is committed.
        DeltaProtocolError: the table is append-only and a clause updates or deletes.
        CommitFailedError: an incompatible concurrent change of metadata or protocol, or 100 consecutive conflicts.
        CommitUnknownError: the store gave no answer to the commit.
    """
    table = snapshot.store.root
    if not clauses:
        raise InvalidArgumentError(
            "the merge has no clause; expected at least one",
            table=table,
            hint="Add a clause, such as when_matched_update_all()",
            code="DELTA_INVALID_MERGE",
        )
    snapshot.check_writable()
    _refuse_opaque(condition, clauses, table)
    for clause in clauses:
        check_assigned(snapshot.schema, clause.values or (), table, is_insert=clause.action == "insert")
    if any(clause.action != "insert" for clause in clauses):
        check_removal(snapshot.metadata, table=table, version=snapshot.version)
    condition, source = with_computed_keys(condition, source)
    plan = MergePlan(condition, keys_of(condition, snapshot.schema, source.schema), clauses)
    new_columns = new_source_columns(snapshot.schema, source.schema, assigned=clauses) if merges_schema else None
    plan = replace(plan, candidates=_target_predicate(plan, source, snapshot))
    operation = _Merge(source, plan, engine, new_columns, writer_properties)
    return change_once(snapshot, operation, engine, commit_properties=commit_properties)


@dataclass(frozen=True)
class _Merge:
    """The ``RowOperation`` of a MERGE.

    Attributes:
        new_columns: columns of the source that are new in the table, or have nested fields that are new; None: the
            merge does not change the schema.
    """

    source: pa.Table
    plan_of_merge: MergePlan
    engine: Engine
    new_columns: pa.Schema | None
    writer_properties: WriterProperties | None

    name = "MERGE"
    writes_rows = True
    commits_always = False

    @property
    def replans(self) -> tuple[type[CommitFailedError], ...]:
        # MetadataChangedError: a winning commit may only have moved high water marks of identity columns, and then the
        # merge is planned again. But new columns need the metadata of the read version.
        return FILE_CONFLICTS if self.new_columns is not None else (*FILE_CONFLICTS, MetadataChangedError)

    @property
    def parameters(self) -> Mapping[str, Any]:
        merge_plan = self.plan_of_merge
        return {
            "predicate": [merge_plan.condition.text],
            "matchedPredicates": _clause_entries(merge_plan.of("matched")),
            "notMatchedPredicates": _clause_entries(merge_plan.of("not matched")),
            "notMatchedBySourcePredicates": _clause_entries(merge_plan.of("not matched by source")),
        }

    @property
    def reads(self) -> tuple[Predicate | None, ...]:
        return (self.plan_of_merge.candidates,)

    def plan(self, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:  # noqa: ARG002 - hidden rows do not match
        candidates = self.plan_of_merge.candidates
        files = snapshot.files if candidates is None else snapshot.prune(candidates)
        if not self.plan_of_merge.of("not matched by source"):
            files = files_with_keys(files, snapshot.layout, self.plan_of_merge.keys, self.source)
        after = None if self.new_columns is None else with_new_columns(snapshot, self.new_columns)
        return RowChangePlan(files.slice(0, 0), files, None if after == snapshot.metadata else after)

    def match(self, snapshot: Snapshot, files: pa.Table, metadata: Metadata | None) -> MatchedRows:
        target = update_target(snapshot, metadata, self.writer_properties)
        merged = merge_rows(self.engine, files, self.plan_of_merge, self.source, target)
        counts = {name: merged.counts.get(kind, 0) for kind, name in _COUNTS.items()}
        counts |= {
            "numSourceRows": len(self.source),
            "numTargetFilesScanned": len(files),
            "numTargetFilesSkipped": snapshot.file_count - len(files),
        }
        numbered = self._numbered(target) if merged.counts.get("inserted") else ()
        before = metadata or snapshot.metadata
        after = with_high_water_marks(before, target.layout, numbered, merged.new_files) if numbered else None
        return MatchedRows(merged.matches, merged.changed, merged.new_files, counts, after)

    def _numbered(self, target: WriteTarget) -> tuple[str, ...]:
        """The identity columns that an insert leaves out."""
        inserts = [clause for clause in self.plan_of_merge.clauses if clause.action == "insert"]
        names = {name for clause in inserts for name in target.computed.without(clause.values or ()).identity}
        return tuple(sorted(names))

    def spark_metrics(self, metrics: dict[str, Any]) -> dict[str, Any]:
        named = {_METRIC_NAMES.get(name, name): value for name, value in metrics.items() if name != "numDeletedRows"}
        written = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsCopied")
        return named | {"numOutputRows": sum(named.get(name, 0) for name in written)}


def new_source_columns(
    target: Schema, source: pa.Schema, *, assigned: Sequence[MergeClause] | None = None
) -> pa.Schema:
    """The columns of a source that are new in the target, or that may have nested fields that are new in the target.

    Args:
        assigned: only columns to which one of these clauses assigns a value; None: all.
    """
    names = None if assigned is None else {name.lower() for clause in assigned for name in clause.values or {}}

    def is_new(column: pa.Field) -> bool:
        field = target.get(column.name)
        return field is None or (not isinstance(field.type, PrimitiveType) and pa.types.is_nested(column.type))

    return pa.schema(
        [column for column in source if (names is None or column.name.lower() in names) and is_new(column)]
    )


def _refuse_opaque(condition: Predicate, clauses: tuple[MergeClause, ...], table: str) -> None:
    """Refuse a condition or a value that Arrow cannot evaluate, because Arrow evaluates a merge on both engines.

    SQL on the source alone, which only Spark can evaluate, was already replaced by columns of the source.
    """
    texts: list[Predicate | Value] = [condition]
    for clause in clauses:
        texts += [] if clause.condition is None else [clause.condition]
        texts += (clause.values or {}).values()
    for text, root in ((each.sql, each.root) for each in texts):
        for part in walk(root):
            if isinstance(part, Opaque):
                raise InvalidPredicateError(
                    f"a merge cannot evaluate {sql_excerpt(part.sql)} of {sql_excerpt(text)}",
                    table=table,
                    hint="Use it only on columns of the source and on the Spark engine, compute it as a column of the "
                    "source, or rewrite it with the SQL that docs/updating.md lists",
                    code="DELTA_PREDICATE_NEEDS_SPARK",
                )


def _clause_entries(clauses: tuple[MergeClause, ...]) -> list[dict[str, str]]:
    """Clauses as delta-spark writes them into the log."""
    return [
        {"actionType": clause.action} | ({} if clause.condition is None else {"predicate": clause.condition.text})
        for clause in clauses
    ]


def _target_predicate(plan: MergePlan, source: pa.Table, snapshot: Snapshot) -> Predicate | None:
    """A predicate on the target that is true for every row that a clause may change; None: every row.

    It requires the parts of the condition that name only the target, and key values that are among the source's keys,
    or in their range.
    """
    if plan.of("not matched by source"):
        return None
    target_parts = [
        part
        for part in conjuncts(plan.condition.root)
        if {node.path[0] for node in walk(part) if isinstance(node, Column)} == {TARGET}
    ]
    predicate: Predicate | None = None
    if target_parts:
        root = _without_side(conjunction(target_parts))
        predicate = Predicate(render(root), root, snapshot.store.root)
    for target_name, source_name in plan.keys:
        filters = key_filters(snapshot.field(target_name), source[source_name])
        if filters:
            predicate = conjoin(predicate, from_filters(filters, snapshot.schema, table=snapshot.store.root))
    return predicate


def key_filters(column: Field, keys: pa.ChunkedArray) -> list[tuple[str, str, Any]]:
    """Filters that are true for each value of a column that is equal to one of the keys; empty: all values."""
    values = pc.unique(keys).drop_null()
    if not len(values):
        return [(column.name, "in", [None])]  # true for no value: nothing is equal to NULL
    if not _compares_exactly(column.type.to_arrow(), values):
        return []
    try:
        if len(values) <= _MOST_LISTED:
            return [(column.name, "in", values.to_pylist())]
        bounds = pc.min_max(values).as_py()
    except (OverflowError, ValueError):  # a time that Python cannot represent
        return []
    return [(column.name, ">=", bounds["min"]), (column.name, "<=", bounds["max"])]


def _compares_exactly(kind: pa.DataType, keys: pa.Array) -> bool:
    """Whether SQL compares keys with a column of this type exactly. Filters always do.

    To compare a floating-point number with an integer or a decimal, SQL rounds both to double.
    """
    is_floating = [pa.types.is_floating(each) for each in (kind, keys.type)]
    if is_floating[1] and pc.any(pc.is_nan(keys)).as_py():
        return False
    if is_floating[0] == is_floating[1]:
        return True
    bounds = pc.min_max(keys).as_py()
    is_decimal = pa.types.is_decimal(kind) or pa.types.is_decimal(keys.type)
    return not is_decimal and bounds["min"] > -_MOST_EXACT and bounds["max"] < _MOST_EXACT


def _without_side(part: Any) -> Any:
    """A node without the first name of each column's path, which is ``TARGET`` or ``SOURCE``."""
    if isinstance(part, Column):
        return Column(part.path[1:], part.type)
    if isinstance(part, tuple):
        return tuple(map(_without_side, part))
    if not isinstance(part, Node):
        return part
    return replace(part, **{each.name: _without_side(getattr(part, each.name)) for each in fields(part)})
