"""Pairs of target and source rows as a table with a struct column for each side, and the clauses that apply to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, int64s, literal, numbers_of
from lakehouse_lib.engine.merge_plan import MergeClause
from lakehouse_lib.expressions import Predicate, Value, matches
from lakehouse_lib.expressions.ir import Column, walk
from lakehouse_lib.expressions.namespace import SOURCE, TARGET

Rows = NDArray[np.int64]

_PORTION_BYTES = 64 << 20
#: A portion has at most ``_PORTION_BYTES / _LEAST_ROW_BYTES`` rows.
_LEAST_ROW_BYTES = 256


def first_clauses(clauses: Sequence[MergeClause], rows: pa.Table) -> Rows:
    """For each row the number of the first clause whose condition is true; -1: no condition is true."""
    chosen = np.full(len(rows), -1, np.int64)
    for number, clause in enumerate(clauses):
        is_undecided = chosen < 0
        if clause.condition is not None:
            # Evaluate only the rows about which no earlier clause decides: the condition may fail for other rows.
            undecided = np.flatnonzero(is_undecided)
            is_true = (
                flags_of(matches(clause.condition, rows.take(int64s(undecided))))
                if len(undecided)
                else is_undecided[undecided]
            )
            chosen[undecided[is_true]] = number
            continue
        chosen[is_undecided] = number
    return chosen


def columns_of_sides(expressions: Sequence[Predicate | Value]) -> tuple[set[str], set[str]]:
    """The columns of the target and of the source that expressions read."""
    names: tuple[set[str], set[str]] = (set(), set())
    for expression in expressions:
        for part in walk(expression.root):
            if isinstance(part, Column):
                names[part.path[0] == SOURCE].add(part.path[1])
    return names


def pairs_of_rows(
    rows: pa.Table, target_rows: Rows, source: pa.Table, source_rows: Rows, source_names: set[str]
) -> pa.Table:
    """Pairs of rows as a table with a struct column for each side."""
    pairs = one_side(TARGET, rows.take(int64s(target_rows)))
    if not source_names:
        return pairs
    return pairs.append_column(SOURCE, structs_of(source.select(sorted(source_names)).take(int64s(source_rows))))


def row_sizes(rows: pa.Table) -> Rows:
    """The approximate bytes of each row: exact for texts and binary values, the average for other columns."""
    sizes = np.full(len(rows), _LEAST_ROW_BYTES, np.int64)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), literal(0, pa.int32()))
            sizes += numbers_of(lengths, np.int32)
        else:
            sizes += column.nbytes // max(1, len(column))
    return sizes


def portions(sizes: Rows) -> Iterator[slice]:
    """Rows of these sizes in portions of about 64 MiB, so that no column of a portion is too large for Arrow."""
    numbers = np.cumsum(sizes) // _PORTION_BYTES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(sizes)]):
        yield slice(start, end)


def one_side(side: str, rows: pa.Table) -> pa.Table:
    """Rows as a table with one struct column, which has the name of the side."""
    return pa.table({side: structs_of(rows)})


def structs_of(rows: pa.Table) -> pa.StructArray:
    """Rows as an array of structs. The table must have at least one column."""
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.StructArray.from_arrays(columns, names=rows.column_names)
