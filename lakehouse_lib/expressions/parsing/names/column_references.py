"""The columns that a syntax tree names."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Column, Opaque
from lakehouse_lib.expressions.namespace import MergeNamespace
from lakehouse_lib.expressions.parsing.grammar.syntax import spark_sql, text_of
from lakehouse_lib.expressions.parsing.names.column_names import resolve
from lakehouse_lib.expressions.parsing.names.quoted_names import parse_condition
from lakehouse_lib.schema import Schema


def columns_in(sql: str, schema: Schema) -> set[Column]:
    """The columns that a condition names. Its predicate may lack some: ``x <=> 0.1`` is false for a whole number x.

    Raises:
        InvalidPredicateError: the schema has no such column.
    """
    return set(_columns(parse_condition(sql, schema), schema))


def spark_expression(tree: Any, schema: Schema) -> Opaque:
    """An expression that only Spark evaluates, with the columns that it reads.

    Raises:
        InvalidPredicateError: a column does not exist, or the expression cannot be written as Spark's SQL.
    """
    columns = _columns(tree, schema)
    return Opaque(spark_sql(tree), columns)


def _columns(tree: Any, schema: Schema) -> tuple[Column, ...]:
    """The columns and members that a syntax tree names, each once, in their order."""
    references = (node for node in tree.find_all(exp.Column, exp.Dot) if not isinstance(node.parent, exp.Dot))
    return tuple(dict.fromkeys(column_of(reference, schema) for reference in references))


def column_of(tree: Any, schema: Schema) -> Column:
    """The column or member that a name means.

    Raises:
        InvalidPredicateError: the schema has no such column.
    """
    parts = parts_of(tree)
    return schema.resolve(parts) if isinstance(schema, MergeNamespace) else resolve(parts, schema)


def parts_of(tree: Any) -> list[str]:
    """The parts of a name, such as ``a`` and ``b`` of ``a.b``.

    Raises:
        InvalidPredicateError: it is not a name.
    """
    if isinstance(tree, exp.Dot):
        return [*parts_of(tree.this), *parts_of(tree.expression)]
    if isinstance(tree, exp.Identifier):
        return [str(tree.this)]
    if isinstance(tree, exp.Column):
        return [part for identifier in tree.parts for part in parts_of(identifier)]
    raise InvalidPredicateError(
        f"{text_of(tree)!r} is not a column",
        hint="Name a column or a member of a struct",
        code="DELTA_PREDICATE_COLUMN_NOT_FOUND",
    )
