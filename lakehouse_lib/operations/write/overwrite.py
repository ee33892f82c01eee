"""Overwrite a part of a table: the rows for which a predicate is true, or the partitions that occur in the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools
from lakehouse_lib.engine.parquet.change_files import changed_rows
from lakehouse_lib.errors import InvalidArgumentError, InvalidPredicateError
from lakehouse_lib.expressions import Predicate, from_filters
from lakehouse_lib.expressions.ir import Column, IsNull, Node, conjunction, disjunction
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.features.computed_columns.identity_columns import with_high_water_marks
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.dml.apply import live_matches
from lakehouse_lib.operations.dml.delete import plan_delete
from lakehouse_lib.operations.dml.row_change import MatchedRows, PredicateOperation, RowChangePlan
from lakehouse_lib.operations.files import partition_codes, record_count
from lakehouse_lib.operations.write.create import MODE_NAMES
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.protocol.partition_values import partition_column, to_strings
from lakehouse_lib.schema import PrimitiveType, Schema, merge
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore

PartitionOverwriteMode = Literal["static", "dynamic"]


@dataclass(frozen=True)
class ReplaceWhere(PredicateOperation):
    """The overwrite of the rows for which a predicate is true; a ``RowOperation``.

    The overwrite is never planned again, because a second plan would remove rows that another writer has added since
    the first plan.

    Attributes:
        write: a function that writes the new rows, and returns the files table of their files; called once.
        metadata: the table's metadata after the overwrite, before the write moves high water marks of identity columns.
        numbered: the identity columns whose numbers the write assigns.
    """

    write: Callable[[], pa.Table]
    metadata: Metadata
    numbered: Sequence[str] = ()

    name = "WRITE"
    writes_rows = True
    replans = ()
    commits_always = True

    @property
    def parameters(self) -> Mapping[str, Any]:
        assert self.predicate is not None
        return {
            "mode": MODE_NAMES["overwrite"],
            "partitionBy": list(self.metadata.partition_columns),
            "predicate": self.predicate.text,
        }

    def plan(self, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:  # noqa: ARG002 - deleted rows need not be deleted
        plan = plan_delete(snapshot, self.predicate, rewrite=False)
        return replace(plan, metadata=None if self.metadata == snapshot.metadata else self.metadata)

    def match(self, snapshot: Snapshot, files: pa.Table, metadata: Metadata | None) -> MatchedRows:  # noqa: ARG002
        matches, _ = live_matches(files, self.matches(snapshot, files), snapshot)
        written = self.write()
        changed = pa.concat_tables([changed_rows("delete", files, matches), changed_rows("insert", written)])
        counts = {"numNewRows": record_count(written) or 0}
        layout = replace(snapshot.layout, schema=Schema.from_json(self.metadata.schema_string))
        after = with_high_water_marks(self.metadata, layout, self.numbered, written) if self.numbered else None
        return MatchedRows(matches, changed, written, counts, after)

    def spark_metrics(self, metrics: dict[str, Any]) -> dict[str, Any]:
        names = {"numAddedFiles": "numFiles", "numAddedBytes": "numOutputBytes", "numNewRows": "numOutputRows"}
        rows = metrics["numNewRows"] + metrics["numCopiedRows"]
        return {names.get(name, name): value for name, value in (metrics | {"numNewRows": rows}).items()}


def files_of_partitions(snapshot: Snapshot, written: pa.Table) -> tuple[pa.Table, tuple[Predicate | None, ...]]:
    """The live files in the partitions of ``written``, and the predicate of the rows in these partitions, if any.

    The predicate is None if the table has no partition columns. It lists the values of each partition column, so it may
    also be true for other combinations of these values.

    Args:
        written: a files table for this table.
    """
    if not len(written):
        return pa.Table.from_batches([], FILE_SCHEMA), ()
    predicate = _predicate_of_partitions(snapshot, written)
    files = snapshot.prune(predicate)
    all_files = pa.concat_tables([files.select(["partitionValues"]), written.select(["partitionValues"])])
    codes = partition_codes(all_files, snapshot.layout)
    return files.filter(bools(np.isin(codes[: len(files)], codes[len(files) :]))), (predicate,)


def _predicate_of_partitions(snapshot: Snapshot, written: pa.Table) -> Predicate | None:
    parts: list[Node] = []
    for name, key in snapshot.layout.partition_keys.items():
        field = snapshot.field(name)
        values = pc.unique(partition_column(written, key, field.type))
        # A text such as 0.1 is read as a double, which is not equal to the float 0.1.
        kind = PrimitiveType("double") if field.type == PrimitiveType("float") else field.type
        texts = to_strings(values.drop_null(), kind).to_pylist()
        null: list[Node] = [IsNull(Column((field.name,), field.type))] if values.null_count else []
        try:
            listed = [from_filters([(field.name, "in", texts)], snapshot.schema).root] if texts else []
        except InvalidPredicateError:  # such as binary values; without this column, the predicate is true for more rows
            continue
        parts.append(disjunction([*listed, *null]))
    if not parts:
        return None
    root = conjunction(parts)
    return Predicate(render(root), root, snapshot.store.root)


def check_partial_overwrite(
    mode: str, schema_mode: str | None, predicate: object, partition_overwrite_mode: object, store: ObjectStore
) -> None:
    """Refuse arguments of a partial overwrite that are not valid, or cannot be combined.

    Raises:
        InvalidArgumentError: ``predicate`` is not text; ``partition_overwrite_mode`` is not valid; ``predicate`` or
            "dynamic" is given without mode "overwrite", or both are given; or "dynamic" is given with ``schema_mode``
            "overwrite".
    """
    if predicate is not None and not isinstance(predicate, str):
        raise InvalidArgumentError(
            f"predicate is {excerpt(predicate)}; expected SQL text or None",
            table=store.root,
            hint="Write it as SQL; None means all rows",
        )
    if partition_overwrite_mode not in ("static", "dynamic"):
        raise _refusal(
            f"partition_overwrite_mode is {excerpt(partition_overwrite_mode)}; expected 'static' or 'dynamic'",
            '"dynamic" replaces only the partitions that occur in the data',
            store,
        )
    is_dynamic = partition_overwrite_mode == "dynamic"
    if predicate is None and not is_dynamic:
        return
    option = "predicate is given" if predicate is not None else "partition_overwrite_mode is 'dynamic'"
    if predicate is not None and is_dynamic:
        raise _refusal(
            "predicate is given and partition_overwrite_mode is 'dynamic'; expected one of them",
            "Both select the rows to replace: leave one of them out",
            store,
        )
    if mode != "overwrite":
        raise _refusal(
            f"{option} and mode is {mode!r}; expected mode 'overwrite'",
            'Use mode "overwrite", or leave the option out',
            store,
        )
    if schema_mode == "overwrite" and is_dynamic:
        raise _refusal(
            f"{option} and schema_mode is 'overwrite'; expected 'merge' or None",
            'The remaining rows keep the table\'s columns: add columns by schema_mode "merge", or overwrite all rows',
            store,
        )


def check_columns_are_kept(snapshot: Snapshot, incoming: pa.Schema) -> None:
    """Refuse an overwrite by a predicate with ``schema_mode`` "overwrite" that drops or changes a column of the table.

    The remaining rows are in files with the old columns, and other engines read a file only if the types agree.

    Raises:
        InvalidArgumentError: the data lacks a column of the table, or has a column in another type that could be cast.
        SchemaMismatchError: a column in the data has a type that cannot be cast.
    """
    data = Schema.from_arrow(incoming)
    for field in merge(snapshot.schema, incoming, table=snapshot.store.root).fields:
        new = data.get(field.name)
        if new is None or new.type != field.type:
            change = "lacks it" if new is None else f"has the type {new.type}; expected {field.type}"
            raise _refusal(
                f"schema_mode is 'overwrite' with a predicate, and for the column {field.name} the data {change}",
                "The remaining rows keep the table's columns. Change the columns by DeltaTable.alter, or overwrite all "
                "rows",
                snapshot.store,
            )


def check_is_partitioned(metadata: Metadata, store: ObjectStore) -> None:
    """Refuse a dynamic partition overwrite of a table without partitions, which would remove all rows.

    Raises:
        InvalidArgumentError: the table has no partition columns.
    """
    if not metadata.partition_columns:
        raise _refusal(
            "partition_overwrite_mode is 'dynamic' and the table has no partitions; expected a partitioned table",
            "Leave partition_overwrite_mode out to replace all rows, or give a predicate",
            store,
        )


def _refusal(message: str, hint: str, store: ObjectStore) -> InvalidArgumentError:
    return InvalidArgumentError(message, table=store.root, hint=hint, code="DELTA_INVALID_WRITE_MODE")
