"""Column names in double quotes, as in the ``deltalake`` package; in Spark's dialect, text is in double quotes.

In ``"a b" = 1`` and ``t."x"``, only a column is possible, so the names are read as columns. In ``k = "v"``, the quotes
enclose text as in Spark, unless the table has a column ``v``. Then both are possible, and the condition is refused.
Names of columns do not depend on case.

A name that can only be a column is refused if the table does not have this column. Otherwise, ``"nmae" <> 'x'`` would
compare two texts, and be true for every row.

``current_date`` and the other functions that need no parentheses are columns if the table has a column of that name, as
in Spark. So is ``fetch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot.tokens import Token, TokenType

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.namespace import MergeNamespace
from lakehouse_lib.expressions.parsing.grammar.dialect import BARE_WORDS
from lakehouse_lib.expressions.parsing.grammar.syntax import tokens_of, tree_of
from lakehouse_lib.schema import Schema

_LITERALS = (TokenType.STRING, TokenType.NUMBER, TokenType.NULL, TokenType.TRUE, TokenType.FALSE)
_TYPED = (TokenType.DATE, TokenType.TIMESTAMP)  # DATE '2026-01-31'
_SIGNS = (TokenType.DASH, TokenType.PLUS)
_COMPARISONS = (TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE)
_OPERATORS = (*_COMPARISONS, *_SIGNS, TokenType.STAR, TokenType.SLASH, TokenType.MOD)
#: Text in double quotes before one of these tokens is a column, because a condition on a text literal makes no sense.
_AFTER_COLUMNS = (TokenType.IS, TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.NOT)
#: The tokens before the first token of a condition.
_STARTS: tuple[list[TokenType], ...] = ([], [TokenType.L_PAREN], [TokenType.AND], [TokenType.OR], [TokenType.NOT])


def parse_condition(sql: str, schema: Schema) -> Any:
    """The syntax tree of a condition or an expression in Spark's dialect.

    Args:
        schema: the columns that may be in double quotes, or have a name of ``BARE_WORDS``.

    Raises:
        InvalidPredicateError: text in double quotes may also be a column.
        SqlglotError, RecursionError: the text is not valid SQL.
    """
    return tree_of(with_backquotes(sql, schema))


def parse_name(sql: str) -> Any:
    """The syntax tree of a text that should be a column's name.

    Raises:
        InvalidPredicateError, SqlglotError, RecursionError: as ``parse_condition``.
    """
    return tree_of(_with_backquotes(sql, [sql[1:-1]] if sql[:1] == sql[-1:] == '"' else [], []))


def with_backquotes(sql: str, schema: Schema) -> str:
    """The same SQL with backquotes around column names in double quotes and around columns with a special name.

    Args:
        schema: the columns that may be in double quotes, or have a name of ``BARE_WORDS``.

    Raises:
        InvalidPredicateError: text in double quotes may also be a column.
        SqlglotError: the text is not valid SQL.
    """
    sides = schema.schemas.values() if isinstance(schema, MergeNamespace) else [schema]
    bare = [name for side in sides for name in side.names if name.upper() in BARE_WORDS]
    return _with_backquotes(sql, schema.names, bare)


def _with_backquotes(sql: str, names: Sequence[str], bare: Sequence[str]) -> str:
    if '"' not in sql and not bare:
        return sql
    tokens = tokens_of(sql)
    columns = {name.lower() for name in bare}
    pieces, end = [], 0
    for index, token in enumerate(tokens):
        if sql[token.start] == '"':
            is_column = token.token_type is TokenType.STRING and _is_column(tokens, index, sql, names)
        else:
            is_call = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
            is_column = not is_call and sql[token.start : token.end + 1].lower() in columns
        if is_column:
            pieces += [sql[end : token.start], "`", token.text.replace("`", "``"), "`"]
            end = token.end + 1
    return "".join([*pieces, sql[end:]])


def _is_column(tokens: Sequence[Token], index: int, sql: str, names: Sequence[str]) -> bool:
    kinds = [token.token_type for token in tokens]
    before, after = kinds[:index], kinds[index + 1 :]
    if TokenType.DOT in (before[-1:] + after[:1]):
        return True
    if after and after[0] in _AFTER_COLUMNS:
        return True
    if after and after[0] in _OPERATORS:
        operands = [kind for kind in after[1:3] if kind not in _SIGNS and kind not in _TYPED]
        if operands and operands[0] in _LITERALS and not _is_quoted(tokens, index + 2, sql):
            return True
    text = tokens[index].text
    has_column = text.lower() in {name.lower() for name in names}
    if before and before[-1] in _OPERATORS and before[-2:-1] and before[-2] in _LITERALS:
        # 1 < "a" compares with a column, unless the literal ends an expression, as '-' does in: note || '-' = "a-"
        may_be_column = has_column or before[-3:-2] in _STARTS
        if may_be_column and not _is_quoted(tokens, index - 2, sql):
            return True
    if len(tokens) == 1 or not has_column:
        return has_column
    raise InvalidPredicateError(
        f'"{text}" is text in Spark\'s dialect, but the table has a column of that name',
        hint=f"Write `{text}` for the column, or '{text}' for the text",
        code="DELTA_AMBIGUOUS_COLUMN",
    )


def _is_quoted(tokens: Sequence[Token], index: int, sql: str) -> bool:
    return sql[tokens[index].start] == '"'
