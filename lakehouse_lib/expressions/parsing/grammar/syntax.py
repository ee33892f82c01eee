"""SQL in Spark's dialect as sqlglot's syntax tree, and a tree as SQL that Spark reads in the same way."""

from __future__ import annotations

import logging
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, UnsupportedError

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.parsing.grammar.dialect import (
    DIALECT,
    PARSER,
    has_plus_sign,
    misread_operations,
    parenthesized,
    unknown_types,
    unknown_units,
)
from lakehouse_lib.expressions.predicate import sql_excerpt

#: Operations whose operands depend on precedence.
_OPERATIONS = (exp.Binary, exp.Between, exp.BitwiseNot, exp.In, exp.Neg, exp.Not)
#: Operations of one precedence: the left operand needs no parentheses, however long the chain is.
_CHAINS = ((exp.Add, exp.Sub), (exp.Mul, exp.Div, exp.Mod), exp.And, exp.Or, exp.DPipe)

# sqlglot logs parts of the text, which may have personal values.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def tokens_of(sql: str) -> Any:
    """The tokens of a text.

    Raises:
        SqlglotError: the text is not valid SQL.
    """
    return DIALECT.tokenize(sql)


def tree_of(sql: str) -> Any:
    """The syntax tree of a condition or an expression.

    Raises:
        InvalidPredicateError: Spark lacks a type, or would read an operator with other operands.
        SqlglotError, RecursionError: the text is not valid SQL.
    """
    try:
        trees = PARSER(dialect=DIALECT).parse_into(exp.Condition, tokens_of(sql), sql)
    except (SqlglotError, RecursionError):
        raise
    except Exception as error:  # sqlglot reads arguments that a call lacks
        raise ParseError("a call lacks an argument") from error
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise ParseError("expected one expression")
    if any(part.error_messages() for part in tree.find_all(exp.Func, exp.Binary)):
        raise ParseError("a call lacks an argument")
    for name in unknown_types(tree):
        raise InvalidPredicateError(
            f"the type {name} is not supported", hint="Use a type that tables have, such as TIMESTAMP, DATE or STRING"
        )
    for unit in unknown_units(tree):
        raise InvalidPredicateError(
            f"an INTERVAL has {unit!r}; expected a number and a unit of Spark",
            hint="Write it as INTERVAL 1 DAY, with YEAR, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND or a part of a second",
        )
    for part in list(tree.find_all(exp.Add)):
        # INTERVAL 1 DAY 2 HOURS is a sum of intervals, which sqlglot would write without parentheses.
        is_sum = isinstance(part.this, exp.Interval) and isinstance(part.expression, exp.Interval | exp.Add)
        if is_sum and isinstance(part.parent, _OPERATIONS):
            _enclose(part)
    if "+" in sql and has_plus_sign(tree):
        raise InvalidPredicateError(
            "it has a plus sign before an operand that is not a number", hint="Leave out the plus sign"
        )
    for part in misread_operations(tree):
        raise InvalidPredicateError(
            f"Spark may read the operators of {sql_excerpt(text_of(part))} in another order",
            hint="Write parentheses around operands",
        )
    return tree


def spark_sql(tree: Any) -> str:
    """A tree as SQL that Spark reads as the same tree.

    Raises:
        InvalidPredicateError: sqlglot cannot write a call as Spark's SQL, or an operator would have other operands.
    """
    sql = text_of(tree)
    explicit = text_of(_with_parentheses(tree))
    try:
        is_same = explicit == sql or _without_parentheses(sql) == _without_parentheses(explicit)
    except (SqlglotError, InvalidPredicateError):
        is_same = False
    if not is_same:
        raise InvalidPredicateError(
            f"Spark would read a part of it as {sql!r}, which is another expression",
            hint="Write parentheses around operands, or use another function",
        )
    return sql


def text_of(tree: Any) -> str:
    """A tree as SQL in Spark's dialect.

    Raises:
        InvalidPredicateError: sqlglot cannot write a call as Spark's SQL.
    """
    try:
        return str(tree.sql(dialect=DIALECT, unsupported_level=ErrorLevel.RAISE))
    except RecursionError:
        raise
    except Exception as error:  # the text would lose an argument, such as the format of to_char, or a call lacks one
        reason = f": {error}" if isinstance(error, UnsupportedError) else ""
        raise InvalidPredicateError(
            f"it has a call that cannot be written as Spark's SQL again{reason}", hint="Use another function"
        ) from error


def _with_parentheses(tree: Any) -> Any:
    """The same tree with parentheses around each operand that is itself an operation."""
    tree = tree.copy()
    for part in list(tree.find_all(*_OPERATIONS)):
        parent = part.parent
        if not isinstance(parent, _OPERATIONS) or isinstance(parent, exp.Escape):
            continue
        if part.arg_key == "this" and any(isinstance(part, kind) and isinstance(parent, kind) for kind in _CHAINS):
            continue
        _enclose(part)
    return tree


def _enclose(part: Any) -> None:
    """Put parentheses around a part of a tree."""
    parentheses = parenthesized(None)
    part.replace(parentheses)
    parentheses.set("this", part)


def _without_parentheses(sql: str) -> Any:
    """The tree of a text without its parentheses."""
    tree = exp.Paren(this=tree_of(sql))
    for part in list(tree.find_all(exp.Paren)):
        if part is not tree:
            part.replace(part.this)
    return tree
