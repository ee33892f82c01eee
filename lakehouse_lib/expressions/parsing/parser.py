"""From what a user writes, SQL or DNF filters, to a ``Predicate``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError, InvalidPredicateError
from lakehouse_lib.expressions.ir import Column, IsNull, Literal, Node, Not, conjunction, disjunction
from lakehouse_lib.expressions.parsing.column_names import resolve
from lakehouse_lib.expressions.parsing.comparison import among, compare
from lakehouse_lib.expressions.predicate import Predicate, shown
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.schema import PrimitiveType, Schema

#: One condition of a filter: column, operator, value.
Filter = tuple[str, str, Any]

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse(sql: str, schema: Schema, *, table: str | None = None, label: str | None = None) -> Predicate:
    """The condition ``sql`` in Spark's dialect, such as ``id > 5 AND name LIKE 'a%'``.

    A row matches when the condition is true; where it is NULL it does not. Names are matched regardless of case.
    Literals take the type of what they are compared with; dates and timestamps may be plain strings, in UTC where they
    name no zone.

    Args:
        sql: one condition; nested fields as ``a.b``, names with other characters in backticks.
        schema: the table's.
        table: for the error.
        label: what commitInfo and errors show in place of ``sql``, for a condition whose values are personal. Errors
            do not show the text then.

    Raises:
        InvalidPredicateError: it does not parse, names no column, compares what cannot be compared, or has an
            aggregate, a window or a subquery.
    """
    # sqlglot takes 0.1 s to import, and most tables are opened without a predicate.
    from lakehouse_lib.expressions.parsing.sql import translate

    try:
        if isinstance(sql, str):  # what else it may be is refused below
            _check_text(sql)
        return Predicate(sql, translate(sql, schema), table, label)
    except InvalidPredicateError as error:
        if label is not None:
            raise InvalidPredicateError(
                f"the predicate {shown(label)} does not parse or does not fit the columns of the table",
                table=table,
                hint="Its text is not shown, as its values are personal; compare the columns it names with the schema.",
            ) from None
        raise InvalidPredicateError(
            f"{error.message} in the predicate {shown(sql)}", table=table, hint=error.hint, code=error.code
        ) from error.__cause__


def predicate_of(
    condition: str | Sequence[Filter] | Sequence[Sequence[Filter]] | None,
    schema: Schema,
    *,
    partition_columns: Sequence[str] = (),
    table: str | None = None,
    label: str | None = None,
) -> Predicate | None:
    """A condition in either form, ``parse``'s or that of ``from_filters``; None without a condition.

    Raises:
        InvalidArgumentError: it is in another form.
        InvalidPredicateError: as ``parse`` and ``from_filters``.
    """
    if condition is not None and not isinstance(condition, Sequence):
        raise InvalidArgumentError(
            f"a condition of type {type(condition).__module__}.{type(condition).__qualname__}",
            table=table,
            hint='Write SQL, or [("column", "=", value)]; filters of to_pyarrow_table takes a pyarrow expression',
        )
    if condition is None or (not isinstance(condition, str) and not len(condition)):
        return None
    if isinstance(condition, str):
        return parse(condition, schema, table=table, label=label)
    return from_filters(condition, schema, partition_columns=partition_columns, table=table)


def from_filters(
    filters: Sequence[Filter] | Sequence[Sequence[Filter]],
    schema: Schema,
    *,
    partition_columns: Sequence[str] = (),
    table: str | None = None,
) -> Predicate:
    """Filters in disjunctive normal form, as the ``deltalake`` package and pyarrow take them.

    Args:
        filters: ``[("x", ">=", 3), ("y", "in", [1, 2])]``, all of which hold, or a list of such lists, one of which
            holds. Operators: =, ==, !=, <, <=, >, >=, in, not in. ``=`` and ``!=`` with None ask for (no) null; listed
            it matches nothing, as NULL does in SQL. A value may be text whatever the column's type.
        schema: the table's.
        partition_columns: of these the empty string is null, and a string's value may be a whole number, as
            ``deltalake`` has it.
        table: for the error.

    Raises:
        InvalidPredicateError: an unknown column or operator, or a value that is none of the column's type.
    """
    if not filters:
        raise InvalidPredicateError("an empty filter", table=table, hint="Leave the filter out to take every row.")
    groups: list[Any] = list(filters) if isinstance(filters[0], list) else [filters]
    try:
        conditions = [[_condition(condition, schema, partition_columns) for condition in group] for group in groups]
        if not all(conditions):
            raise InvalidPredicateError("a list without conditions", hint='Write [[("a", "=", 1)], [("b", "=", 2)]].')
        root = disjunction([conjunction(group) for group in conditions])
    except InvalidPredicateError as error:
        raise InvalidPredicateError(
            f"{error.message} in the filters {shown(filters)}", table=table, hint=error.hint, code=error.code
        ) from None
    return Predicate(render(root), root, table)


def _condition(condition: Filter, schema: Schema, partition_columns: Sequence[str]) -> Node:
    if not isinstance(condition, (tuple, list)) or len(condition) != 3:
        raise InvalidPredicateError(f"{condition!r} is not a condition", hint='Write ("column", "operator", value).')
    name, operator, value = condition
    word = " ".join(str(operator).lower().split())
    column = resolve([name] if name in schema else str(name).split("."), schema)
    in_log = column.path[0].lower() in {partition_column.lower() for partition_column in partition_columns}
    if word in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InvalidPredicateError(
                f"{shown(value)} is no list of values for {word}", hint='Write ("column", "in", [1, 2]).'
            )
        membership = among(column, [_literal(_as_in_log(item, column) if in_log else item) for item in value])
        return membership if word == "in" else Not(membership)
    if word not in _OPERATORS:
        raise InvalidPredicateError(
            f"{operator!r} is not an operator", hint=f"Use one of {', '.join(_OPERATORS)}, in, not in."
        )
    value = _as_in_log(value, column) if in_log else value
    if value is None and _OPERATORS[word] in ("=", "!="):
        return IsNull(column) if _OPERATORS[word] == "=" else Not(IsNull(column))
    return compare(_OPERATORS[word], column, _literal(value))


def _as_in_log(value: Any, column: Column) -> Any:
    if isinstance(value, (str, bytes)) and not value:
        return None
    value = _plain(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole and column.type == PrimitiveType("string") else value


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPredicateError(
            f"{text[error.start]!r} is half a character", hint="Decode the text with the encoding it was written in."
        ) from None


def _plain(value: Any) -> Any:
    """A scalar of numpy or Arrow as Python's."""
    if getattr(value, "shape", None) == ():
        return value.item()
    return value.as_py() if hasattr(value, "as_py") else value


def _literal(value: Any) -> Literal:
    value = _plain(value)
    if value is None:
        return Literal(None, PrimitiveType("void"))
    if isinstance(value, bool):
        return Literal(value, PrimitiveType("boolean"))
    if isinstance(value, int):
        return Literal(Decimal(value), PrimitiveType("decimal(38,0)"))
    if isinstance(value, Decimal):
        return Literal(value, PrimitiveType("decimal(38,18)"))
    if isinstance(value, float):
        return Literal(value, PrimitiveType("double"))
    if isinstance(value, str):
        _check_text(value)
        return Literal(value, PrimitiveType("string"))
    if isinstance(value, bytes):
        return Literal(value, PrimitiveType("binary"))
    if isinstance(value, dt.datetime):
        naive = value.tzinfo is None
        moment = value.replace(tzinfo=dt.UTC) if naive else value
        micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
        return Literal(micros, PrimitiveType("timestamp_ntz" if naive else "timestamp"))
    if isinstance(value, dt.date):
        return Literal(value.toordinal() - _EPOCH_DAY, PrimitiveType("date"))
    raise InvalidPredicateError(
        f"{shown(value)} of type {type(value).__name__} is not a value of a column",
        hint="Give a number, text, bytes, a boolean, a date, a datetime or None.",
    )
