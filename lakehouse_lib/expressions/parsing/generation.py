"""The expression of a generated column: its type in Spark, and whether it always has the same value."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokens import TokenType

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Literal
from lakehouse_lib.expressions.parsing.common_types import type_in_spark
from lakehouse_lib.expressions.parsing.grammar.syntax import text_of, tokens_of
from lakehouse_lib.expressions.parsing.names.quoted_names import parse_condition
from lakehouse_lib.expressions.parsing.sql import translate_value
from lakehouse_lib.schema import DataType, Schema

#: Functions whose value changes between calls, rows, sessions or files, in sqlglot's names.
_CHANGING = frozenset(
    f"CURRENT_{name}" for name in ("CATALOG", "DATABASE", "DATE", "SCHEMA", "TIME", "TIMESTAMP", "TIMEZONE", "USER")
) | {
    *("AES_ENCRYPT", "INPUT_FILE_BLOCK_LENGTH", "INPUT_FILE_BLOCK_START", "INPUT_FILE_NAME", "JAVA_METHOD"),
    *("LOCALTIME", "LOCALTIMESTAMP", "MONOTONICALLY_INCREASING_ID", "NOW", "RAND", "RANDN", "RANDOM", "RANDSTR"),
    *("REFLECT", "SESSION_USER", "SHUFFLE", "SPARK_PARTITION_ID", "TRY_REFLECT", "UNIFORM", "USER", "UUID", "VERSION"),
}


def check_deterministic(sql: str, schema: Schema) -> None:
    """Refuse an expression with a function whose value changes.

    Raises:
        InvalidPredicateError: the expression has such a function, which the error names, or a syntax error.
    """
    tokens = [token.token_type for token in tokens_of(sql)]
    if tokens.count(TokenType.L_PAREN) != tokens.count(TokenType.R_PAREN):  # sqlglot closes a cast at the end
        raise InvalidPredicateError("it has a syntax error", hint="Write as many ( as )")
    for part in parse_condition(sql, schema).walk():
        if isinstance(part, exp.Func):
            name = part.name if isinstance(part, exp.Anonymous) else part.sql_name()
            if name.upper() in _CHANGING:
                raise InvalidPredicateError(
                    f"{text_of(part)!r} does not always have the same value",
                    hint="Use functions whose value depends only on columns of the row",
                )


def type_of_generation(sql: str, schema: Schema) -> DataType | None:
    """The type that the expression has in Spark; None: only Spark knows it, or the expression fits any type."""
    node = translate_value(sql, schema, None)
    return None if isinstance(node, Literal) else type_in_spark(node)
