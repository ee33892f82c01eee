"""Set columns to new values in the rows for which a predicate is true. Rows for which it is NULL stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.change_files import changed_rows
from lakehouse_lib.engine.parquet.matching import bytes_to_match, positions_of
from lakehouse_lib.engine.parquet.updating import update_matching_rows
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.errors import InvalidArgumentError, InvalidPredicateError
from lakehouse_lib.expressions import EVERY_ROW, Predicate, Value
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.features import check_removal, row_rules, row_tracking
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns
from lakehouse_lib.features.computed_columns.identity_columns import check_assigned
from lakehouse_lib.operations.dml.apply import live_matches
from lakehouse_lib.operations.dml.row_change import MatchedRows, PredicateOperation, RowChangePlan
from lakehouse_lib.operations.dml.single_change import change_once
from lakehouse_lib.operations.files import discard, record_count
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def update(
    snapshot: Snapshot,
    values: Mapping[str, Value],
    predicate: Predicate | None,
    engine: Engine,
    *,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
) -> ChangeResult:
    """Update matching rows in one commit. Files without a matching row are not changed.

    Updated rows are written to new files, and removed from their old files as by ``delete``: by deletion vectors if
    ``delta.enableDeletionVectors`` is true, otherwise by copies. They keep their row ids. If a winning commit changed
    rows or files that may match, all rows are matched again on the latest version.

    Args:
        values: the new values by column name, as the schema spells it; a value may use the old values of all columns.
        predicate: None: every row.

    Returns:
        Metrics: numUpdatedRows, and the metrics of ``delete`` without numDeletedRows. If no row matches, nothing is
        committed.

    Raises:
        InvalidArgumentError: no values are given.
        InvalidPredicateError: the engine cannot evaluate a value.
        SchemaMismatchError: a value is out of the range of its column; nothing is committed.
        ConstraintViolatedError: an updated row violates a rule of the table; nothing is committed.
        DeltaProtocolError: the table is append-only.
        CommitFailedError: a concurrent change of schema or protocol, or 100 consecutive conflicts.
        CommitUnknownError: the store gave no answer to the commit.
    """
    table = snapshot.store.root
    if not values:
        raise InvalidArgumentError(
            "the update assigns no column; expected at least one", table=table, hint='Write {"column": "expression"}'
        )
    snapshot.check_writable()
    check_assigned(snapshot.schema, values, table, is_insert=False)
    check_removal(snapshot.metadata, table=table, version=snapshot.version)
    operation = _Update(predicate, engine, writer_properties, values)
    return change_once(snapshot, operation, engine, commit_properties=commit_properties)


@dataclass(frozen=True)
class _Update(PredicateOperation):
    """The ``RowOperation`` of an UPDATE."""

    values: Mapping[str, Value]

    name = "UPDATE"
    writes_rows = True

    def plan(self, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:  # noqa: ARG002 - hidden rows are not updated
        files = snapshot.files if self.predicate is None else snapshot.prune(self.predicate)
        return RowChangePlan(files.slice(0, 0), files)

    def match(self, snapshot: Snapshot, files: pa.Table, metadata: Metadata | None) -> MatchedRows:
        target = update_target(snapshot, metadata, self.writer_properties)
        matches, written = self._written(snapshot, files, target)
        count = sum(map(len, positions_of(matches)))
        if not count:
            return MatchedRows(matches, changed_rows("update_preimage", files, matches))
        rows = record_count(written)
        if rows is not None and rows != count:
            discard(snapshot.store, written)
            raise InvalidPredicateError(
                f"the values give {rows} rows for {count} rows; expected one value for each row",
                table=snapshot.store.root,
                version=snapshot.version,
                hint="Use no aggregates and no functions such as explode",
                code="DELTA_INVALID_ASSIGNMENT",
            )
        changed = [changed_rows("update_preimage", files, matches), changed_rows("update_postimage", written)]
        return MatchedRows(matches, pa.concat_tables(changed), written, {"numUpdatedRows": count})

    def _written(self, snapshot: Snapshot, files: pa.Table, target: WriteTarget) -> tuple[pa.Table, pa.Table]:
        """The matches without hidden rows, and the files table of the files with the updated rows."""
        predicate = self.predicate or EVERY_ROW
        roots = [predicate.root, *(value.root for value in self.values.values())]
        by_arrow = all(map(is_renderable, roots)) and not any(rule.needs_spark for rule in target.rules)
        if by_arrow and self.engine.for_bytes(bytes_to_match(snapshot, files, predicate)) is self.engine:
            # One run of tasks matches and writes the rows. For few bytes (``for_bytes``), the Spark engine instead
            # matches the rows in the driver, where ``Engine.update`` may also write them.
            return update_matching_rows(self.engine, target, files, predicate, self.values)
        matches, count = live_matches(files, self.matches(snapshot, files), snapshot)
        if not count:
            return matches, files.slice(0, 0)
        matched_files = files.take(pc.index_in(matches["source"].combine_chunks(), files["path"].combine_chunks()))
        return matches, self.engine.update(snapshot, matched_files, matches, self.values, target)

    def spark_metrics(self, metrics: dict[str, Any]) -> dict[str, Any]:
        # The rows that leave their files are not deleted: they are in new files.
        return {"numUpdatedRows": 0} | {name: value for name, value in metrics.items() if name != "numDeletedRows"}


def update_target(
    snapshot: Snapshot, metadata: Metadata | None = None, writer_properties: WriterProperties | None = None
) -> WriteTarget:
    """The write target of changed rows: the table's layout, rules and file size.

    Args:
        metadata: the table's metadata after the change; None: unchanged.

    Raises:
        DeltaProtocolError: the table has row tracking, but row ids cannot be stored.
    """
    table, version = snapshot.store.root, snapshot.version
    row_tracking.check_table(snapshot.protocol, snapshot.metadata, snapshot.schema, table=table, version=version)
    layout = snapshot.layout_with_row_ids()
    if metadata is not None:
        layout = replace(layout, schema=Schema.from_json(metadata.schema_string))
    after = metadata or snapshot.metadata
    return WriteTarget(
        snapshot.store,
        layout,
        after.configuration,
        rules=row_rules(after, table),
        writer_properties=writer_properties,
        computed=ComputedColumns.of(layout.schema, table),
    )
