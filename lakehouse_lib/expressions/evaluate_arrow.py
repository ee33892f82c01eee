"""Evaluation of predicates and values on Arrow data, with the semantics of SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import _acero as acero  # ``pyarrow.acero`` imports pandas, which takes a quarter of a second

from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import as_array, bools, flags_of, int64s, null_scalar
from lakehouse_lib.errors import InvalidPredicateError, SchemaMismatchError
from lakehouse_lib.expressions.ir import (
    TRUE,
    And,
    Case,
    Column,
    Function,
    Node,
    Opaque,
    Or,
    columns_of,
    walk,
    with_children,
)
from lakehouse_lib.expressions.kernels import KERNELS
from lakehouse_lib.expressions.predicate import Predicate, sql_excerpt
from lakehouse_lib.expressions.render_arrow import ArrowRendering
from lakehouse_lib.expressions.value import Value
from lakehouse_lib.schema import DataType, Schema

_Rows: TypeAlias = pa.Table | pa.RecordBatch


def matches(predicate: Predicate, data: pa.Table | pa.RecordBatch) -> pa.Array:
    """The value of the predicate for each row of ``data``: true, false or NULL.

    Args:
        data: rows in the types of the table's schema, as ``schema.align`` returns them.

    Raises:
        InvalidPredicateError: only Spark can evaluate a part of the predicate; or, in some row, integer arithmetic
            overflows a long, a divisor is 0, or a date out of the range of timestamps is compared with a timestamp.
    """
    _refuse_opaque(predicate)
    try:
        return as_array(_value(predicate.root, data, data.num_rows))
    except pa.ArrowInvalid as error:
        raise InvalidPredicateError(
            f"the predicate {sql_excerpt(predicate.text)} cannot be evaluated for all rows: {error}",
            table=predicate.table,
            hint="Write x / nullif(y, 0) if y may be 0. Integer arithmetic has 64 bits: move the number to the other "
            "side, x > 4 for x + 1 > 5, or cast to DOUBLE",
        ) from error


def values_of(
    values: Mapping[str, Value], data: pa.Table, schema: Schema, *, table: str | None = None
) -> dict[str, pa.ChunkedArray]:
    """The value of each expression for each row of ``data``, in the type of its column.

    Args:
        data: rows in the types of ``schema``, as ``schema.align`` returns them.

    Raises:
        InvalidPredicateError: only Spark can evaluate a part of a value.
        SchemaMismatchError: a value is out of the range of its column, its arithmetic overflows, or a divisor is 0.
    """
    # NOT NULL inside a column is checked by its rule, when the rows are written.
    types = nullable(pa.schema([schema.field(name).to_arrow() for name in values]))
    results = {}
    for column_name, value in values.items():
        check_renderable(value)
        try:
            kind = types.field(column_name).type
            column = _value(value.root, data, len(data))
            results[column_name] = column if column.type == kind else column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaMismatchError(
                f"the value {sql_excerpt(value.sql)} of column {column_name!r} cannot be computed for all rows: "
                f"{error}",
                table=table,
                hint="Assign smaller values, or widen the column; write x / nullif(y, 0) if y may be 0",
                code="DELTA_VALUE_OUT_OF_RANGE",
            ) from error
    return results


def _value(node: Node, data: _Rows, count: int) -> pa.ChunkedArray:
    """The value of a node for each row.

    All parts of AND and OR are first evaluated for all rows. If this fails, for example at a division by zero, each
    part is evaluated only for the rows that the parts before it leave undecided, as in Spark.

    Args:
        data: has the columns that the node reads, and maybe more.
        count: the number of rows, because ``data`` may have no columns.
    """
    try:
        return _value_of_all_parts(node, data, count)
    except pa.ArrowInvalid:
        if isinstance(node, And | Or):
            return _decided_in_order(node, data, count)
        logic: dict[str, Node] = {}
        root = _with_columns(node, logic, _is_logic)
        if not logic:
            raise
    columns = dict(zip(data.schema.names, data.columns, strict=True))
    return _value(root, pa.table(columns | {name: _value(part, data, count) for name, part in logic.items()}), count)


def _decided_in_order(node: And | Or, data: _Rows, count: int) -> pa.ChunkedArray:
    """The value of AND or OR. A part is evaluated only for the rows that the parts before it leave undecided."""
    is_or = isinstance(node, Or)
    decides, unknown = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for operand in node.operands:
        undecided = np.flatnonzero(~decides)
        rows = data.take(int64s(undecided)) if len(undecided) < count else data
        values = _value(operand, rows, len(undecided))
        decides[undecided] = flags_of(values if is_or else pc.invert(values))
        unknown[undecided] |= flags_of(values.is_null())
    truth = pc.if_else(bools(unknown & ~decides), null_scalar(pa.bool_()), bools(decides if is_or else ~decides))
    return pa.chunked_array([truth])


def _value_of_all_parts(node: Node, data: _Rows, count: int) -> pa.ChunkedArray:
    """The value of a node for each row. All parts of AND and OR are evaluated for all rows, which is fast."""
    match node:
        case Case():
            return _case(node, data, count)
        case Function(name=name) if name in KERNELS:
            arguments = [_typed(_value(argument, data, count), argument.type) for argument in node.arguments]
            arguments = arguments or [pa.chunked_array([pa.nulls(count)])]  # also array() returns a value for each row
            batches = pa.table(arguments, list(map(str, range(len(arguments))))).to_batches()
            chunks = [KERNELS[name](node, batch.columns) for batch in batches]
            return pa.chunked_array(chunks, _arrow_type(node.type))
    parts: dict[str, Node] = {}
    root = _with_columns(node, parts, _is_computed_apart)
    columns = {name: data.column(name) for name in sorted(columns_of(root) - parts.keys())}
    columns |= {name: _value(part, data, count) for name, part in parts.items()}
    return _project(ArrowRendering().value(root), columns, count)


def _with_columns(node: Node, parts: dict[str, Node], is_part: Callable[[Node], bool]) -> Node:
    """The node with a column instead of each part for which ``is_part`` is true.

    Parts inside a CASE stay, because a CASE evaluates them only for some rows.

    Args:
        parts: the replaced parts by the name of their column; this function adds to them.
    """
    if is_part(node) and node.type is not None:
        # No column of a table has such a name.
        name = next((name for name, part in parts.items() if part == node), f"\0{type(node).__name__}{len(parts)}")
        parts[name] = node
        return Column((name,), node.type)
    return node if isinstance(node, Case) else with_children(node, lambda child: _with_columns(child, parts, is_part))


def _is_logic(node: Node) -> bool:
    return isinstance(node, And | Or)


def _is_computed_apart(node: Node) -> bool:
    """Whether an Arrow expression cannot compute the node."""
    return isinstance(node, Case) or (isinstance(node, Function) and node.name in KERNELS)


def _case(node: Case, data: _Rows, count: int) -> pa.ChunkedArray:
    kind = _arrow_type(node.type)
    undecided = np.arange(count)
    parts: list[pa.ChunkedArray] = []
    places = []
    for when, then in (*node.branches, (TRUE, node.otherwise)):
        rows = data.take(int64s(undecided)) if len(undecided) < count else data
        is_true = flags_of(_value(when, rows, len(undecided)))
        branch_rows = undecided[is_true]
        if len(branch_rows):
            data_of_branch = rows.filter(bools(is_true)) if len(branch_rows) < len(undecided) else rows
            parts.append(_typed(_value(then, data_of_branch, len(branch_rows)), node.type))
            places.append(branch_rows)
        undecided = undecided[~is_true]
        if not len(undecided):
            break
    if not parts:
        return pa.chunked_array([pa.nulls(0, kind)])
    order = np.argsort(np.concatenate(places), kind="stable")
    whole_column = pa.chunked_array([chunk for part in parts for chunk in part.chunks], kind)
    return whole_column if len(parts) == 1 else whole_column.take(int64s(order))


def _typed(column: pa.ChunkedArray, kind: DataType | None) -> pa.ChunkedArray:
    """The column in a type of the schema. Some functions of Arrow return wider integers."""
    target = column.type if kind is None else _arrow_type(kind)
    return column if column.type == target else column.cast(target)


def _arrow_type(kind: DataType) -> pa.DataType:
    return nullable(pa.schema([pa.field("", kind.to_arrow())])).field(0).type


def _project(expression: Any, columns: dict[str, pa.Array | pa.ChunkedArray], count: int) -> pa.ChunkedArray:
    """The values of an Arrow expression on columns with ``count`` rows."""
    # An expression without columns still needs a table with as many rows.
    table = pa.table(columns or {"": pa.nulls(count, pa.bool_())})
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    return plan.to_table(use_threads=False).column(0)


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
                hint="Run it on the Spark engine, or rewrite it with the SQL that docs/updating.md lists",
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
                hint="Run it on the Spark engine, or rewrite it with the SQL that docs/predicates.md lists",
                code="DELTA_PREDICATE_NEEDS_SPARK",
            )
