"""The condition that is true for exactly those rows for which another condition is false or NULL."""

from __future__ import annotations

from dataclasses import replace

from lakehouse_lib.expressions.ir import (
    FALSE,
    TRUE,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    conjunction,
    disjunction,
)
from lakehouse_lib.expressions.predicate import Predicate
from lakehouse_lib.expressions.render_spark import render


def not_true(predicate: Predicate) -> Predicate:
    """The predicate that is true where ``predicate`` is false or NULL, in a form that can prune files."""
    root = _not_true(predicate.root)
    return replace(predicate, sql=render(root), root=root)


def _not_true(node: Node) -> Node:
    match node:
        case And():
            return disjunction([_not_true(operand) for operand in node.operands])
        case Or():
            return conjunction([_not_true(operand) for operand in node.operands])
        case IsNull() | Not(operand=IsNull()):  # never NULL
            return Not(node)
        case Literal():
            return FALSE if node.value is True else TRUE
    column = _only_source_of_null(node.operand if isinstance(node, Not) else node)
    if column is not None:
        return disjunction([Not(node), IsNull(column)])
    return Not(Comparison("<=>", node, TRUE))


def _only_source_of_null(leaf: Node) -> Column | None:
    """The column that is NULL exactly in the rows for which the leaf is NULL; None if no column is."""
    match leaf:
        case Column():
            return leaf
        case Comparison(operator=operator, left=Column() as column, right=Literal(value=value)):
            return column if operator != "<=>" and value is not None else None
        case In(operand=Column() as column, has_null=False):
            return column
    return None
