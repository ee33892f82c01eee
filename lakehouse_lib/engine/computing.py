"""Compute the values of columns that the data lacks: defaults, identity numbers and generated columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import InvalidPredicateError, SchemaMismatchError
from lakehouse_lib.expressions import Value, values_of
from lakehouse_lib.features.computed_columns.computed_columns import ComputedColumns

_BITS = 1 << 63


def with_computed(
    batches: Iterable[pa.RecordBatch],
    columns: ComputedColumns,
    target: WriteTarget,
    next_numbers: dict[str, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches with the values of computed columns.

    Args:
        batches: batches with all columns of the target, in its types. The values of ``columns`` in them are ignored.
        next_numbers: the next number by identity column, for a write that computes its rows in several calls. Pass the
            same mapping to all calls, empty at first; each call updates it.

    Raises:
        InvalidPredicateError: only Spark can evaluate an expression.
        SchemaMismatchError: a value is out of the range of its column.
    """
    if not columns.names:
        yield from batches
        return
    numbers = {} if next_numbers is None else next_numbers
    for rows in with_null_texts(_with_defaults(batches, columns, target), target):
        for name, identity in columns.identity.items():
            first = numbers.get(name, identity.first)
            numbers[name] = first + identity.step * len(rows)
            rows = _replaced(rows, name, _numbers(name, first, identity.step, len(rows), target))
        for name, value in columns.generated.items():
            rows = _replaced(rows, name, _value(name, value, rows, target))
        yield from rows.combine_chunks().to_batches()


def _with_defaults(
    batches: Iterable[pa.RecordBatch], columns: ComputedColumns, target: WriteTarget
) -> Iterator[pa.Table]:
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        for name, value in columns.defaults.items():
            rows = _replaced(rows, name, _value(name, value, rows, target))
        yield rows


def with_null_texts(batches: Iterable[Any], target: WriteTarget) -> Iterator[Any]:
    """Tables or batches with null instead of empty text in partition columns, because the log stores both as null."""
    for batch in batches:
        for name in target.layout.text_partition_columns:
            index = batch.schema.get_field_index(name)
            values = batch.column(index)
            is_empty = pc.equal(pc.binary_length(values), 0)
            if pc.any(is_empty).as_py():
                batch = batch.set_column(index, batch.schema.field(index), pc.if_else(is_empty, None, values))
        yield batch


def _replaced(rows: pa.Table, name: str, values: pa.ChunkedArray | pa.Array) -> pa.Table:
    index = rows.column_names.index(name)
    return rows.set_column(index, rows.schema.field(index), values)


def _numbers(name: str, first: int, step: int, count: int, target: WriteTarget) -> pa.Array:
    """The numbers of an identity column: ``first``, ``first + step`` and so on."""
    last = first + step * (count - 1)
    if count and not (min(first, last) >= -_BITS and max(first, last) < _BITS):
        raise SchemaMismatchError(
            f"the identity column {name!r} needs the numbers {first} to {last}; expected numbers in the range of a "
            "long",
            table=target.store.root,
            hint="Write the rows to a new table",
            code="DELTA_VALUE_OUT_OF_RANGE",
        )
    return int64s(first + step * np.arange(count, dtype=np.int64) if count else [])


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
