"""The parts of a MERGE's SQL that only Spark evaluates and that read only the source, such as ``lower(s.email)``.

Spark computes each part once for each row of the source, before the merge. The merge then reads the part as a column of
the source.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.expressions.namespace import SOURCE, MergeNamespace
from lakehouse_lib.expressions.parsing.generation import check_deterministic
from lakehouse_lib.expressions.parsing.grammar.syntax import spark_sql
from lakehouse_lib.expressions.parsing.names.column_references import column_of
from lakehouse_lib.expressions.parsing.names.quoted_names import parse_condition
from lakehouse_lib.expressions.parsing.sql import translate_value


def with_source_columns(sql: str, names: MergeNamespace, columns: dict[str, str]) -> str:
    """SQL of a merge in which a column of the source replaces each part that only Spark evaluates.

    Only parts that read only the source are replaced.

    Args:
        sql: a condition or a value that has been parsed with ``names``.
        columns: the SQL of each part, by the name of its column; new parts are added.

    Raises:
        InvalidPredicateError: a part has a function whose value changes, such as ``rand``.
    """
    return spark_sql(_replaced(parse_condition(sql, names), names, columns))


def _replaced(tree: Any, names: MergeNamespace, columns: dict[str, str]) -> Any:
    if isinstance(tree, exp.Column | exp.Dot | exp.Literal):
        return tree
    if _is_value(tree) and _reads_only_the_source(tree, names):
        part = spark_sql(tree)
        if not is_renderable(translate_value(part, names, None)):
            check_deterministic(part, names)
            numbers = {text: name for name, text in columns.items()}
            name = numbers.get(part, f"__lakehouse_source_{len(columns)}")
            columns[name] = part
            return exp.column(name, table=names.aliases[SOURCE], quoted=True)
    for child in list(tree.iter_expressions()):
        new = _replaced(child, names, columns)
        if new is not child:
            child.replace(new)
    return tree


def _is_value(tree: Any) -> bool:
    """Whether the tree is an expression with a value; a branch of a CASE is not."""
    is_branch = isinstance(tree, exp.If) and isinstance(tree.parent, exp.Case)
    return isinstance(tree, exp.Condition) and not is_branch


def _reads_only_the_source(tree: Any, names: MergeNamespace) -> bool:
    references = [
        reference
        for reference in tree.find_all(exp.Column, exp.Dot)
        if not isinstance(reference.parent, exp.Dot) or reference is tree
    ]
    try:
        return bool(references) and all(column_of(each, names).path[0] == SOURCE for each in references)
    except InvalidPredicateError:  # a method of a struct's member, or a name that only Spark knows
        return False
