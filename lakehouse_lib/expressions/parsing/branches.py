"""CASE, IF, COALESCE and NULLIF rewritten as logic: a condition on them becomes a condition on each branch.

``CASE WHEN c THEN a ELSE b END = 5`` becomes ``(c IS TRUE AND a = 5) OR (c IS NOT TRUE AND b = 5)``. The result for
NULL is also the same. So the nodes of a condition contain no ``Case``, and the columns in the branches prune files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lakehouse_lib.expressions.ir import TRUE, IsNull, Node, Not, conjunction, disjunction
from lakehouse_lib.expressions.parsing.comparison import compare

CHOICES = (exp.Case, exp.If, exp.Nvl2, exp.Nullif, exp.Coalesce)

# The number of nodes grows with the square of the number of branches, and again with each level of nesting.
_MOST_BRANCHES = 16
_MOST_LEVELS = 3


def condition_on_branches(
    tree: Any, condition: Callable[[Any], Node], question: Callable[[Any], Node | None]
) -> Node | None:
    """The condition ``question`` on the value of a CASE, as a disjunction over the branches of ``tree``.

    None: the tree has too many branches or levels, or a branch's value has no node.

    Args:
        condition: makes the node of a branch's condition.
        question: makes the condition on a branch's value; None if there is no node for it.
    """
    branches, default = branches_of(tree)
    if len(branches) > _MOST_BRANCHES or _levels(tree) > _MOST_LEVELS:
        return None
    parts: list[Node] = []
    before: list[Node] = []
    for when, then in branches:
        is_true = condition(when)
        if not _never_null(is_true):
            is_true = compare("<=>", is_true, TRUE)
        answer = question(then)
        if answer is None:
            return None
        parts.append(conjunction([*before, is_true, answer]))
        before.append(Not(is_true))
    answer = question(default)
    return None if answer is None else disjunction([*parts, conjunction([*before, answer])])


def _never_null(node: Node) -> bool:
    return isinstance(node, IsNull) or (isinstance(node, Not) and isinstance(node.operand, IsNull))


def _levels(tree: Any) -> int:
    """The number of nested choices."""
    most, pending = 0, [(tree, 0)]
    while pending:
        part, above = pending.pop()
        above += isinstance(part, CHOICES)
        most = max(most, above)
        pending += [(child, above) for child in part.iter_expressions()]
    return most


def branches_of(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The condition and the value of each branch, and the value if no branch applies, as sqlglot trees."""
    tree = tree.copy()  # sqlglot moves a part that is put into a new tree out of its old tree
    if isinstance(tree, exp.Coalesce):
        values: list[Any] = [tree.this, *tree.expressions]
        branches = [(exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())), value) for value in values[:-1]]
        return branches, values[-1]
    if isinstance(tree, exp.Nullif):
        return [(exp.EQ(this=tree.this.copy(), expression=tree.expression), exp.Null())], tree.this
    if isinstance(tree, exp.Nvl2):
        present = exp.Not(this=exp.Is(this=tree.this, expression=exp.Null()))
        return [(present, tree.args["true"])], tree.args.get("false") or exp.Null()
    if isinstance(tree, exp.If):
        return [(tree.this, tree.args["true"])], tree.args.get("false") or exp.Null()
    subject = tree.args.get("this")
    branches = []
    for branch in tree.args["ifs"]:
        when = branch.this if subject is None else exp.EQ(this=subject.copy(), expression=branch.this)
        branches.append((when, branch.args["true"]))
    return branches, tree.args.get("default") or exp.Null()
