"""Columns of a merge's source that Spark computes, for SQL that Arrow cannot evaluate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.predicate import sql_excerpt
from lakehouse_lib.schema import Schema

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.engine.merge_plan import MergeClause
    from lakehouse_lib.expressions import Predicate, Value
    from lakehouse_lib.expressions.namespace import MergeNamespace

_Parsed = TypeVar("_Parsed", "Predicate", "Value")


def with_source_columns(
    source: pa.Table,
    condition: Predicate,
    clauses: Sequence[MergeClause],
    names: MergeNamespace,
    target: Schema,
    engine: Engine,
) -> tuple[pa.Table, Predicate, tuple[MergeClause, ...]]:
    """The source with the columns that Spark computes, and the condition and the clauses that read these columns.

    The condition and the clauses keep the SQL text of the user. Without Spark, source, condition and clauses stay as
    they are.

    Args:
        names: the namespace in which the condition and the clauses were parsed.
        target: the columns to which clauses assign values.

    Raises:
        InvalidPredicateError: Spark refuses the SQL, the SQL is not deterministic, or a value does not fit its column.
    """
    from lakehouse_lib.expressions import parse, parse_value
    from lakehouse_lib.expressions.evaluate_arrow import is_renderable
    from lakehouse_lib.expressions.namespace import SOURCE, TARGET, MergeNamespace
    from lakehouse_lib.expressions.parsing import source_parts

    computed: dict[str, str] = {}

    def rewrite(parsed: Predicate | Value) -> str | None:
        """The SQL that reads computed columns; None: Arrow can evaluate ``parsed`` as it is."""
        if is_renderable(parsed.root):
            return None
        try:
            return source_parts.with_source_columns(parsed.sql, names, computed)
        except InvalidPredicateError as error:
            raise _refused(
                f"a merge cannot evaluate {sql_excerpt(parsed.sql)}: {error.message}", error, parsed
            ) from None

    texts = [
        (
            None if clause.condition is None else rewrite(clause.condition),
            {name: rewrite(value) for name, value in (clause.values or {}).items()},
        )
        for clause in clauses
    ]
    join = rewrite(condition)
    try:
        added = engine.compute(source, names.aliases[SOURCE], computed) if computed else None
    except InvalidPredicateError as error:
        raise _refused(error.message, error, condition) from error.__cause__
    if added is None:
        return source, condition, tuple(clauses)
    for name in added.column_names:
        source = source.append_column(added.schema.field(name), added[name])
    fields = [*names.schemas[SOURCE].fields, *Schema.from_arrow(added.schema).fields]
    namespace = MergeNamespace(names.schemas[TARGET], Schema(fields), (names.aliases[TARGET], names.aliases[SOURCE]))

    def read_again(parsed: _Parsed, sql: str | None, read: Callable[[str], _Parsed]) -> _Parsed:
        if sql is None:
            return parsed
        try:
            return replace(parsed, root=read(sql).root)
        except InvalidPredicateError as error:
            message = error.message
            for name, text in computed.items():
                message = message.replace(f"`{name}`", text).replace(name, text)
            raise _refused(message, error, parsed) from None

    def condition_of(parsed: Predicate, sql: str | None) -> Predicate:
        return read_again(parsed, sql, partial(parse, schema=namespace, table=parsed.table))

    def value_of(name: str, parsed: Value, sql: str | None) -> Value:
        read = partial(parse_value, column=target.field(name), schema=namespace, table=parsed.table)
        return read_again(parsed, sql, read)

    new_clauses = tuple(
        replace(
            clause,
            condition=None if clause.condition is None else condition_of(clause.condition, sql),
            values=clause.values and {name: value_of(name, value, sqls[name]) for name, value in clause.values.items()},
        )
        for clause, (sql, sqls) in zip(clauses, texts, strict=True)
    )
    return source, condition_of(condition, join), new_clauses


def _refused(message: str, error: InvalidPredicateError, parsed: Predicate | Value) -> InvalidPredicateError:
    return InvalidPredicateError(message, table=parsed.table, hint=error.hint, code=error.code)
