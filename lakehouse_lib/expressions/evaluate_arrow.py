"""Evaluation of predicates and values on Arrow data, with the semantics of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import _acero as acero  # ``pyarrow.acero`` imports pandas, which takes a quarter of a second

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import as_array, bools, flags_of, int64s
from lakehouse_lib.errors import InvalidPredicateError, SchemaMismatchError
from lakehouse_lib.expressions.ir import TRUE, Case, Node, Opaque, walk
from lakehouse_lib.expressions.predicate import Predicate, sql_excerpt
from lakehouse_lib.expressions.render_arrow import ArrowRendering
from lakehouse_lib.expressions.value import Value
from lakehouse_lib.schema import Schema


def matches(predicate: Predicate, data: pa.Table | pa.RecordBatch) -> pa.Array:
    """The value of the predicate for each row of ``data``: true, false or NULL.

    Args:
        data: rows in the types of the table's schema, as ``schema.align`` returns them.

    Raises:
        InvalidPredicateError: only Spark can evaluate a part of the predicate, its arithmetic overflows a long, or it
            compares a date that is out of the range of timestamps with a timestamp.
    """
    _refuse_opaque(predicate)
    try:
        (column,) = _project([ArrowRendering().boolean(predicate.root)], sorted(predicate.columns), data, data.num_rows)
    except pa.ArrowInvalid as error:  # from checked arithmetic, or from the cast of a far date to a timestamp
        raise InvalidPredicateError(
            f"the predicate {sql_excerpt(predicate.text)} cannot be evaluated for all rows: {error}",
            table=predicate.table,
            hint="Integer arithmetic has 64 bits: move the number to the other side, x > 4 for x + 1 > 5, or cast to "
            "DOUBLE on the Spark engine",
        ) from error
    return as_array(column)


def values_of(
    values: Mapping[str, Value], data: pa.Table, schema: Schema, *, table: str | None = None
) -> dict[str, pa.ChunkedArray]:
    """The value of each expression for each row of ``data``, in the type of its column.

    Args:
        data: rows in the types of ``schema``, as ``schema.align`` returns them.

    Raises:
        InvalidPredicateError: only Spark can evaluate a part of a value.
        SchemaMismatchError: a value is out of the range of its column, or its arithmetic overflows.
    """
    # NOT NULL inside a column is checked by its rule, when the rows are written.
    types = nullable(pa.schema([schema.field(name).to_arrow() for name in values]))
    results = {}
    for column_name, value in values.items():
        check_renderable(value)
        try:
            kind = types.field(column_name).type
            results[column_name] = _value(value.root, data.select(sorted(value.columns)), len(data), kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaMismatchError(
                f"the value {sql_excerpt(value.sql)} of column {column_name!r} does not fit its type for all rows: "
                f"{error}",
                table=table,
                hint="Assign smaller values, or widen the column",
                code="DELTA_VALUE_OUT_OF_RANGE",
            ) from error
    return results


def _value(node: Node, data: pa.Table, count: int, kind: pa.DataType) -> pa.ChunkedArray:
    """The value of a node for each row. A branch of a CASE is evaluated only for the rows that take it, as in SQL.

    Args:
        data: the columns that the node reads; there may be none.
        count: the number of rows.
    """
    if not isinstance(node, Case):
        (column,) = _project([ArrowRendering().value(node)], data.column_names, data, count)
        return column if column.type == kind else column.cast(kind)
    undecided = np.arange(count)
    parts: list[pa.ChunkedArray] = []
    places = []
    for when, then in (*node.branches, (TRUE, node.otherwise)):
        rows = data.take(int64s(undecided)) if len(undecided) < count else data
        (flags,) = _project([ArrowRendering().boolean(when)], data.column_names, rows, len(undecided))
        is_true = flags_of(flags)
        branch_rows = undecided[is_true]
        if len(branch_rows):
            data_of_branch = rows.filter(bools(is_true)) if len(branch_rows) < len(undecided) else rows
            parts.append(_value(then, data_of_branch, len(branch_rows), kind))
            places.append(branch_rows)
        undecided = undecided[~is_true]
        if not len(undecided):
            break
    if not parts:
        return pa.chunked_array([pa.nulls(0, kind)])
    order = np.argsort(np.concatenate(places), kind="stable")
    whole_column = pa.chunked_array([chunk for part in parts for chunk in part.chunks], kind)
    return whole_column if len(parts) == 1 else whole_column.take(int64s(order))


def _project(
    expressions: list[Any], names: list[str], data: pa.Table | pa.RecordBatch, count: int
) -> list[pa.ChunkedArray]:
    """The values of Arrow expressions on some columns of ``data``, which has ``count`` rows."""
    # An expression without columns still needs a table with as many rows.
    table = data.select(names) if names else pa.table({"": pa.nulls(count, pa.bool_())})
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration(
                "project", acero.ProjectNodeOptions(expressions, list(map(str, range(len(expressions)))))
            ),
        ]
    )
    columns: list[pa.ChunkedArray] = plan.to_table(use_threads=False).columns
    return columns


def check_renderable(value: Value) -> None:
    """Refuse a value with a part that only Spark can evaluate.

    Raises:
        InvalidPredicateError: the value has such a part; the error names the part.
    """
    for node in walk(value.root):
        if isinstance(node, Opaque):
            raise InvalidPredicateError(
                f"only Spark can evaluate {sql_excerpt(node.sql)} of the value {sql_excerpt(value.sql)}",
                table=value.table,
                hint="Run it on the Spark engine, or rewrite it with columns, literals, + - * / %, CASE, coalesce and "
                "concat",
                code="DELTA_PREDICATE_NEEDS_SPARK",
            )


def is_renderable(node: Node) -> bool:
    """Whether Arrow can evaluate a node."""
    return not any(isinstance(part, Opaque) for part in walk(node))


def _refuse_opaque(predicate: Predicate) -> None:
    for node in walk(predicate.root):
        if isinstance(node, Opaque):
            piece = sql_excerpt(node.sql) if predicate.label is None else "a part"
            raise InvalidPredicateError(
                f"only Spark can evaluate {piece} of the predicate {sql_excerpt(predicate.text)}",
                table=predicate.table,
                hint="Run it on the Spark engine, or rewrite it with comparisons, IN, LIKE, IS NULL, + - * / and %",
                code="DELTA_PREDICATE_NEEDS_SPARK",
            )
