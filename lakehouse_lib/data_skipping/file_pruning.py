"""Pruning of files by partition values and statistics: decides which files may have a row that matches a predicate.

A file is skipped only if no row of it can match, whichever program wrote its statistics. An unknown bound skips no
file. A floating-point max does not cover NaN, which is greater than every number. Bounds may be wider than the values:
strings are truncated, and times are rounded to milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import is_true
from lakehouse_lib.data_skipping.file_values import FileValues, Needs
from lakehouse_lib.data_skipping.leaf import Leaf, all_of, among, any_of, compare, leaf_of, like, tested_operator
from lakehouse_lib.expressions import Predicate, matches
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.expressions.ir import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    columns_of,
    conjunction,
    disjunction,
)
from lakehouse_lib.protocol.partition_values import partition_column
from lakehouse_lib.schema import DataType, PrimitiveType, Schema, StructType, TableLayout
from lakehouse_lib.statistics import ColumnPath, bounds_of

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def needs(predicate: Predicate, layout: TableLayout) -> Needs:
    """The columns that ``decide`` needs; no other column of the log has to be read or parsed."""
    return _Pruning(predicate, layout).needs()


def may_match(predicate: Predicate, files: pa.Table, layout: TableLayout) -> pa.Array:
    """A mask over a files table: False if no row of the file can match, else True; never null.

    Args:
        files: has ``partitionValues`` if the predicate names a partition column, ``stats`` if it names another column.
        layout: gives the keys of the files' partition values and statistics.

    Raises:
        InvalidPredicateError: arithmetic over partition values overflows a long.
        LogCorruptedError: a partition value is not valid for its column's type.
    """
    columns = needs(predicate, layout)
    bounds = bounds_of(files, columns.bounds) if columns.bounds else {}
    values = FileValues(files.num_rows, _partition_values(files, columns.partitions), bounds)
    return decide(predicate, values, layout)


def decide(predicate: Predicate, values: FileValues, layout: TableLayout) -> pa.Array:
    """The mask of ``may_match``, from parsed values; ``values`` has at least the columns of ``needs``.

    Raises:
        InvalidPredicateError: arithmetic over partition values overflows a long.
    """
    return _Pruning(predicate, layout).run(values)


def evaluate_partitions(predicate: Predicate, files: pa.Table, layout: TableLayout) -> pa.Array:
    """The value of a predicate on partition columns only, for each file: true, false or NULL for all rows of the file.

    Raises:
        InvalidPredicateError: as ``matches``.
        LogCorruptedError: a partition value is not valid for its column's type.
    """
    pruning = _Pruning(predicate, layout)
    partitions = {pruning.keys[name.lower()]: layout.schema.field(name).type for name in predicate.columns}
    return pruning.by_values(predicate.root, FileValues(files.num_rows, _partition_values(files, partitions), {}))


def _partition_values(files: pa.Table, partitions: Mapping[str, DataType]) -> dict[str, pa.Array]:
    return {name: partition_column(files, name, kind) for name, kind in partitions.items()}


class _Pruning:
    def __init__(self, predicate: Predicate, layout: TableLayout) -> None:
        self.predicate = predicate
        self.schema = layout.schema
        self.layout = layout
        self.keys = layout.partition_keys
        self.values = FileValues(0, {}, {})
        self.leaves: dict[ColumnPath, Leaf] = {}

    def needs(self) -> Needs:
        root = _without_not(self.predicate.root, negated=False)
        partitions: dict[str, DataType] = {}
        bounds = {self.physical(column): column.type for column in self.bounded(root)}
        pending = [root]
        while pending:
            node = pending.pop()
            if self.by_partition(node):
                for name in columns_of(node):
                    partitions[self.keys[name.lower()]] = self.schema.field(name).type
            elif isinstance(node, And | Or):
                pending += node.operands
        return Needs(partitions, bounds)

    def bounded(self, root: Node) -> Iterator[Column]:
        """The columns whose bounds are used; ``root`` has NOT only directly before a leaf."""
        pending = [root]
        while pending:
            node = pending.pop()
            if isinstance(node, And | Or):
                pending += node.operands
                continue
            column = _bounded(node)
            if column is not None and column.path[0].lower() not in self.keys:
                yield column

    def run(self, values: FileValues) -> pa.Array:
        root = _without_not(self.predicate.root, negated=False)
        self.values = values
        for column in self.bounded(root):
            path = self.physical(column)
            if path not in self.leaves:
                self.leaves[path] = leaf_of(values.bounds[path], column.type, _was_float(self.schema, column.path))
        return self.evaluate(root, frozenset())

    def by_values(self, node: Node, values: FileValues) -> pa.Array:
        """The value of ``node``, which reads partition columns only, for each file."""
        arrays = {name: values.partitions[self.keys[name.lower()]] for name in sorted(columns_of(node))}
        data = pa.table(arrays) if arrays else pa.table([pa.nulls(values.rows)], [""])
        part = replace(self.predicate, root=node)
        return matches(part, data)

    def physical(self, column: Column) -> ColumnPath:
        return self.layout.physical_path(column.path)

    def evaluate(self, node: Node, no_nan: frozenset[ColumnPath]) -> pa.Array:
        """Whether ``node`` may be true, for each file; other conditions exclude NaN in the columns ``no_nan``."""
        if isinstance(node, Literal):
            return self.everywhere(node.value is True)
        # Evaluate the whole node, because it can be false for a file although each operand alone may be true.
        if self.by_partition(node):
            return is_true(self.by_values(node, self.values))
        if isinstance(node, And):
            bounded = no_nan | _excluding_nan(node.operands)
            return all_of([self.evaluate(operand, bounded) for operand in self.grouped(node, conjunction)])
        if isinstance(node, Or):
            return any_of([self.evaluate(operand, no_nan) for operand in self.grouped(node, disjunction)])
        return self.leaf(node, no_nan)

    def grouped(self, node: And | Or, join: Callable[[list[Node]], Node]) -> list[Node]:
        """The operands, with those on partition columns as one: ``p <> 0`` keeps ``1 / p`` from failing."""
        of_partitions = [operand for operand in node.operands if self.by_partition(operand)]
        others = [operand for operand in node.operands if not self.by_partition(operand)]
        return [join(of_partitions), *others] if of_partitions else others

    def leaf(self, node: Node, no_nan: frozenset[ColumnPath]) -> pa.Array:
        negated = isinstance(node, Not)
        inner = node.operand if isinstance(node, Not) else node
        operand = _bounded(node)
        leaf = self.leaves.get(self.physical(operand)) if operand is not None else None
        if leaf is None or operand is None:
            return self.everywhere(True)
        match inner:
            case IsNull():
                return leaf.has_values if negated else leaf.has_nulls
            case Comparison(right=Literal() as literal):
                comparison = compare(tested_operator(inner, negated), literal, leaf, operand.path in no_nan)
                # NOT (x <=> v) is also true where x is null.
                return any_of([comparison, leaf.has_nulls]) if negated and inner.operator == "<=>" else comparison
            case In():
                return among(inner, negated, leaf)
            case Like():
                return leaf.has_values if negated else like(inner, leaf)
            case Column():
                return leaf.has_values
        return self.everywhere(True)

    def by_partition(self, node: Node) -> bool:
        """Whether ``node`` reads partition columns only, or no column."""
        names = columns_of(node)
        return {name.lower() for name in names} <= self.keys.keys() and is_renderable(node)

    def everywhere(self, value: bool) -> pa.Array:
        return pc.fill_null(pa.nulls(self.values.rows, pa.bool_()), value)


def _bounded(leaf: Node) -> Column | None:
    """The column whose bounds decide about ``leaf``; None if there is none."""
    inner = leaf.operand if isinstance(leaf, Not) else leaf
    match inner:
        case IsNull(operand=Column() as column) if isinstance(column.type, PrimitiveType):
            return column
        case Comparison(left=Column() as column, right=Literal()):
            return column
        case In(operand=Column() as column) | Like(operand=Column() as column):
            return column
        case Column():
            return inner
    return None


def _without_not(node: Node, negated: bool) -> Node:
    """The same predicate with NOT only directly before a leaf, as ``evaluate`` requires."""
    match node:
        case Not():
            return _without_not(node.operand, not negated)
        case And() | Or():
            parts = [_without_not(operand, negated) for operand in node.operands]
            return conjunction(parts) if isinstance(node, And) != negated else disjunction(parts)
        case Comparison("<=>", left, Literal(value=bool(value))) if not negated and not isinstance(left, Column):
            # The same as IS TRUE or IS FALSE, so the result for NULL does not matter.
            return _without_not(left, negated=not value)
        case Comparison() if negated and node.operator != "<=>":
            return Comparison(_OPPOSITE[node.operator], node.left, node.right)
        case Literal() if negated:
            return Literal(None if node.value is None else not node.value, node.type)
    return Not(node) if negated else node


def _excluding_nan(conjuncts: Sequence[Node]) -> frozenset[ColumnPath]:
    # x < 5 is false for NaN. So in the conjunction x < 5 AND x > 3, a NaN does not match, although NaN > 3 is true.
    paths = set()
    for conjunct in conjuncts:
        match conjunct:
            case Comparison(left=Column() as column, right=Literal(value=float() as value)):
                if conjunct.operator in ("<", "<=", "=", "<=>") and not math.isnan(value):
                    paths.add(column.path)
            case In(operand=Column() as column, values=values):
                if not any(value != value for value in values):
                    paths.add(column.path)
    return frozenset(paths)


def _was_float(schema: Schema, path: ColumnPath) -> bool:
    """Whether the column was widened from float (PROTOCOL.md, Type Widening)."""
    kind: DataType = schema
    changes: Any = None
    for name in path:
        if isinstance(kind, StructType):
            field = kind.field(name)
            kind, changes = field.type, field.metadata.get("delta.typeChanges")
    listed = changes if isinstance(changes, list) else []
    return any(isinstance(change, dict) and change.get("fromType") == "float" for change in listed)
