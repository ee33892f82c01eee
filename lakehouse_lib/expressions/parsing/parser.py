"""Parse a condition, as SQL text or as filters in disjunctive normal form, into a ``Predicate``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, InvalidPredicateError
from lakehouse_lib.expressions.ir import Column, Function, IsNull, Literal, Node, Not, conjunction, disjunction
from lakehouse_lib.expressions.parsing.comparison import among, compare
from lakehouse_lib.expressions.parsing.names.column_names import resolve
from lakehouse_lib.expressions.predicate import Predicate, sql_excerpt
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.expressions.value import Value
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType
from lakehouse_lib.schema.nesting import equal_except_nullability

#: One condition of a filter: column, operator, value.
Filter = tuple[str, str, Any]

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse(sql: str, schema: Schema, *, table: str | None = None, label: str | None = None) -> Predicate:
    """The predicate for the condition ``sql`` in Spark's dialect, such as ``id > 5 AND name LIKE 'a%'``.

    A row matches if the condition is true; if it is NULL the row does not match. Names are case-insensitive. Text is
    converted to the type that it is compared with; a number is never rounded. A time without a zone is in UTC.

    Args:
        sql: one condition; nested fields as ``a.b``, names with other characters in backticks.
        schema: the schema of the table.
        table: the table's location, for errors.
        label: commitInfo and errors show it instead of ``sql``; for a condition with personal values.

    Raises:
        InvalidPredicateError: the condition does not parse, names a column that does not exist, compares incompatible
            types, or has an aggregate, a window or a subquery.
    """
    # sqlglot takes 0.1 s to import, and most tables are opened without a predicate.
    from lakehouse_lib.expressions.parsing.sql import translate

    try:
        if isinstance(sql, str):  # ``translate`` refuses other types
            _check_text(sql)
        return Predicate(sql, translate(sql, schema), table, label)
    except InvalidPredicateError as error:
        if label is not None:
            raise InvalidPredicateError(
                f"the predicate {sql_excerpt(label)} does not parse or does not fit the columns of the table",
                table=table,
                hint="Its text is not shown, because its values are personal; compare its columns with the schema",
            ) from None
        raise InvalidPredicateError(
            f"the predicate {sql_excerpt(sql)} is not valid: {error.message}",
            table=table,
            hint=error.hint,
            code=error.code,
        ) from error.__cause__


def parse_value(sql: str, column: Field, schema: Schema, *, table: str | None = None) -> Value:
    """The value of the expression ``sql`` in Spark's dialect, for a column.

    Args:
        sql: one expression on single rows, such as ``price * 2`` or ``CASE WHEN a > 1 THEN 'x' ELSE name END``.
        column: the column to which it is assigned.
        schema: the schema of the table.
        table: the table's location, for errors.

    Raises:
        InvalidPredicateError: the expression does not parse, names a column that does not exist, or its type cannot be
            assigned to that of the column.
    """
    from lakehouse_lib.expressions.parsing.sql import translate_value

    try:
        if not isinstance(sql, str):
            raise InvalidPredicateError(
                f"it is of type {type(sql).__name__}; expected SQL text",
                hint="Write the expression as text, such as '5' or 'price * 2'",
            )
        _check_text(sql)
        return Value(sql, translate_value(sql, schema, column.type), table)
    except InvalidPredicateError as error:
        raise _invalid_value(sql, column, error, table) from error.__cause__


def check_generation(value: Value, column: Field, schema: Schema) -> None:
    """Refuse the expression of a generated column if its value may change, or has another type than the column.

    Raises:
        InvalidPredicateError: the expression is refused.
    """
    from lakehouse_lib.expressions.parsing.generation import check_deterministic, type_of_generation

    check_deterministic(value.sql, schema)
    kind = type_of_generation(value.sql, schema)
    if kind is not None and not equal_except_nullability(kind, column.type):
        raise InvalidPredicateError(
            f"it has the type {kind}; expected {column.type}",
            hint="Cast it to the type of the column, or change the type of the column",
            code="DELTA_INVALID_ASSIGNMENT",
        )


def value_of(constant: Any, column: Field, *, table: str | None = None) -> Value:
    """A constant value: the same Python or Arrow scalar, list or dict for each row.

    Raises:
        InvalidPredicateError: the scalar cannot be assigned to the column's type.
    """
    try:
        node = _constant(constant, column.type)
        return Value(render(node), node, table)
    except InvalidPredicateError as error:
        raise _invalid_value(constant, column, error, table) from None


def _constant(constant: Any, kind: DataType) -> Node:
    """The node of a constant: of a list for an array, of a dict for a struct or a map, else of a scalar."""
    from lakehouse_lib.expressions.parsing.assignment import assigned
    from lakehouse_lib.expressions.parsing.calls.constructors import map_of, struct_of

    constant = _plain(constant)
    if isinstance(kind, ArrayType) and isinstance(constant, list | tuple):
        return Function("array", tuple(_constant(part, kind.element_type) for part in constant), kind)
    if isinstance(kind, StructType) and isinstance(constant, dict):
        return struct_of({str(name): part for name, part in constant.items()}, kind, _constant, may_lack=True)
    if isinstance(kind, MapType) and isinstance(constant, list | tuple):
        constant = dict(constant) if all(isinstance(pair, tuple) and len(pair) == 2 for pair in constant) else constant
    if isinstance(kind, MapType) and isinstance(constant, dict):
        node = map_of(list(constant.items()), kind, _constant)
        assert node is not None
        return node
    return assigned(_literal(constant), kind)


def _invalid_value(value: object, column: Field, error: InvalidPredicateError, table: str | None) -> DeltaError:
    is_default = error.code == InvalidPredicateError.code
    return InvalidPredicateError(
        f"the value {sql_excerpt(value)} of column {column.name!r} is not valid: {error.message}",
        table=table,
        hint=error.hint,
        code="DELTA_INVALID_ASSIGNMENT" if is_default else error.code,
    )


def predicate_of(
    condition: str | Sequence[Filter] | Sequence[Sequence[Filter]] | None,
    schema: Schema,
    *,
    partition_columns: Sequence[str] = (),
    table: str | None = None,
    label: str | None = None,
) -> Predicate | None:
    """The predicate for SQL text (``parse``) or filters (``from_filters``); None: no condition, or an empty list.

    Raises:
        InvalidArgumentError: the condition has another form.
        InvalidPredicateError: as ``parse`` and ``from_filters``.
    """
    if condition is not None and not isinstance(condition, Sequence):
        raise InvalidArgumentError(
            f"the condition is a {type(condition).__module__}.{type(condition).__qualname__}; expected SQL or filters",
            table=table,
            hint='Write SQL, or [("column", "=", value)]; to_pyarrow_table and to_pandas take a pyarrow expression',
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
    """The predicate for filters in disjunctive normal form, as in the ``deltalake`` package and pyarrow.

    Args:
        filters: ``[("x", ">=", 3), ("y", "in", [1, 2])]``, all of which must hold, or a list of such lists, one of
            which must hold. Operators: =, ==, !=, <>, <, <=, >, >=, in, not in. ``=`` and ``!=`` with None mean (not)
            null; in a list None matches nothing, as NULL in SQL. A value for a column of any type may be written as
            text.
        schema: the schema of the table.
        partition_columns: for these the empty string is null, and the value of a string column may be a whole number,
            as in ``deltalake``.
        table: the table's location, for errors.

    Raises:
        InvalidPredicateError: a column or operator is unknown, a value cannot be converted to the column's type, or an
            entry is not a filter.
    """
    if not filters:
        raise InvalidPredicateError("the filter is empty", table=table, hint="Leave the filter out to take every row")
    groups: list[Any] = list(filters) if isinstance(filters[0], list) else [filters]
    try:
        conditions = [[_condition(condition, schema, partition_columns) for condition in group] for group in groups]
        if not all(conditions):
            raise InvalidPredicateError("a list has no conditions", hint='Write [[("a", "=", 1)], [("b", "=", 2)]]')
        root = disjunction([conjunction(group) for group in conditions])
    except InvalidPredicateError as error:
        raise InvalidPredicateError(
            f"the filters {sql_excerpt(filters)} are not valid: {error.message}",
            table=table,
            hint=error.hint,
            code=error.code,
        ) from None
    return Predicate(render(root), root, table)


def _condition(condition: Filter, schema: Schema, partition_columns: Sequence[str]) -> Node:
    if not isinstance(condition, (tuple, list)) or len(condition) != 3:
        raise InvalidPredicateError(f"{condition!r} is not a condition", hint='Write ("column", "operator", value)')
    name, operator, value = condition
    word = " ".join(str(operator).lower().split())
    column = resolve([name] if name in schema else str(name).split("."), schema)
    in_log = column.path[0].lower() in {partition_column.lower() for partition_column in partition_columns}
    if word in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InvalidPredicateError(
                f"{sql_excerpt(value)} is not a list of values for {word}", hint='Write ("column", "in", [1, 2])'
            )
        membership = among(column, [_literal(_as_in_log(item, column) if in_log else item) for item in value])
        return membership if word == "in" else Not(membership)
    if word not in _OPERATORS:
        raise InvalidPredicateError(
            f"{operator!r} is not an operator", hint=f"Use one of {', '.join(_OPERATORS)}, in, not in"
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
            f"{text[error.start]!r} is half of a surrogate pair", hint="Decode the text with its own encoding"
        ) from None


def _plain(value: Any) -> Any:
    """The Python value of a numpy or Arrow scalar; other values unchanged."""
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
    if isinstance(value, Decimal) and not value.is_snan():
        return Literal(value, PrimitiveType("decimal(38,18)"))
    if isinstance(value, float):
        return Literal(value, PrimitiveType("double"))
    if isinstance(value, str):
        _check_text(value)
        return Literal(value, PrimitiveType("string"))
    if isinstance(value, bytes):
        return Literal(value, PrimitiveType("binary"))
    if isinstance(value, dt.datetime) and value == value:  # pandas' NaT is a datetime
        naive = value.tzinfo is None
        moment = value.replace(tzinfo=dt.UTC) if naive else value
        micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
        return Literal(micros, PrimitiveType("timestamp_ntz" if naive else "timestamp"))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return Literal(value.toordinal() - _EPOCH_DAY, PrimitiveType("date"))
    raise InvalidPredicateError(
        f"{sql_excerpt(value)} of type {type(value).__name__} is not a value of a column",
        hint="Give a number, text, bytes, a boolean, a date, a datetime or None",
    )
