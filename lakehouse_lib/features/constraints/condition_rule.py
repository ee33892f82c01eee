"""The row rule for a SQL condition of the table's metadata: a CHECK constraint or an invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.errors import ConstraintViolatedError, InvalidPredicateError
from lakehouse_lib.schema import Schema

if TYPE_CHECKING:
    from lakehouse_lib.expressions import PredicateRule


def condition_rule(
    title: str, sql: str, schema: Schema, *, table: str | None, way_out: str | None = None
) -> PredicateRule:
    """The rule for a condition in SQL; as in delta-spark, a row for which the condition is NULL violates the rule.

    Args:
        title: the name of the rule in errors.
        table: for errors.
        way_out: the hint of the error, for a condition that the table has already; None: the hint of the parser.

    Raises:
        InvalidPredicateError: the condition does not parse or does not fit the columns.
    """
    from lakehouse_lib.expressions import PredicateRule, parse  # only for tables with conditions

    try:
        return PredicateRule(parse(sql, schema, table=table), ConstraintViolatedError.code, title)
    except InvalidPredicateError as error:
        raise InvalidPredicateError(
            f"{title} is not valid: {error.message}",
            table=table,
            hint=way_out or error.hint,
            code=error.code,
        ) from error
