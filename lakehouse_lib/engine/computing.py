"""Values of columns that rows lack: computed by the expressions of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions import Value, values_of
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns


def with_computed(
    batches: Iterable[pa.RecordBatch], columns: ComputedColumns, target: WriteTarget
) -> Iterator[pa.RecordBatch]:
    """Batches with the values of computed columns.

    Args:
        batches: they have all columns of the target, in its types; the values of ``columns`` are ignored.

    Raises:
        InvalidPredicateError: only Spark can evaluate an expression.
        SchemaMismatchError: a value is out of the range of its column.
    """
    if not columns.names:
        yield from batches
        return
    for batch in with_null_texts(batches, target):
        rows = pa.Table.from_batches([batch])
        for name, value in (*columns.defaults.items(), *columns.generated.items()):
            rows = rows.set_column(
                rows.column_names.index(name), batch.schema.field(name), _value(name, value, rows, target)
            )
        yield from rows.combine_chunks().to_batches()


def with_null_texts(batches: Iterable[pa.RecordBatch], target: WriteTarget) -> Iterator[pa.RecordBatch]:
    """Batches with null for empty text in partition columns, because the log stores it as null."""
    for batch in batches:
        for name in target.layout.text_partition_columns:
            index = batch.schema.get_field_index(name)
            values = batch.column(index)
            is_empty = pc.equal(pc.binary_length(values), 0)
            if pc.any(is_empty).as_py():
                batch = batch.set_column(index, batch.schema.field(index), pc.if_else(is_empty, None, values))
        yield batch


def _value(name: str, value: Value, rows: pa.Table, target: WriteTarget) -> pa.ChunkedArray:
    values: Mapping[str, Value] = {name: value}
    try:
        return values_of(values, rows, target.layout.schema, table=target.store.root)[name]
    except InvalidPredicateError as error:
        raise InvalidPredicateError(
            f"the column {name!r} cannot be computed: {error.message}",
            table=target.store.root,
            hint="Write with the Spark engine" if error.code == "DELTA_PREDICATE_NEEDS_SPARK" else error.hint,
            code=error.code,
        ) from error
