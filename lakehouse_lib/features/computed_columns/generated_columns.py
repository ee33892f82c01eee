"""The feature generatedColumns: columns that are expressions of other columns (PROTOCOL.md, Generated Columns).

``delta.generationExpression`` in the metadata of a column is the expression in Spark's SQL. As in delta-spark, an
expression always has the same value for the same row, and reads no generated column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakehouse_lib.errors import InvalidPredicateError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features.feature import Feature, field_metadata
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.schema import Field, PrimitiveType, Schema, TableLayout
from lakehouse_lib.schema.nested_fields import members_of
from lakehouse_lib.schema.rows.enforcement import GENERATION_EXPRESSION

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Value, ValueRule


def generated_values(schema: Schema, table: str | None = None) -> dict[str, Value]:
    """The expressions of the generated columns of a table, by column.

    Raises:
        UnsupportedFeatureError: an expression is not text.
        InvalidPredicateError: an expression does not parse, or names a column that does not exist.
    """
    values = ((field.name, generated_value(field, schema, table)) for field in schema.fields)
    return {name: value for name, value in values if value is not None}


def generated_value(field: Field, schema: Schema, table: str | None = None) -> Value | None:
    """The expression of a generated column, or None for another column; raises the errors of ``generated_values``."""
    if not _is_generated(field):
        return None
    sql = field.metadata[GENERATION_EXPRESSION]
    if not isinstance(sql, str):
        raise UnsupportedFeatureError(
            f"the expression of the generated column {field.name!r} is {excerpt(sql)} (generatedColumns); expected SQL",
            table=table,
            hint="Write the expression as text, such as 'CAST(at AS DATE)'",
        )
    from lakehouse_lib.expressions import parse_value  # only for tables with generated columns

    try:
        return parse_value(sql, field, schema, table=table)
    except InvalidPredicateError as error:
        raise _invalid(field, error, table) from error


def check_expressions(schema: Schema, table: str | None) -> None:
    """Refuse generated columns that a new table cannot have.

    Raises:
        InvalidSchemaError: a generated column is in a struct, is of a nested type, or reads a generated column.
        InvalidPredicateError: an expression does not parse, may have different values for the same row, or has another
            type than its column.
        UnsupportedFeatureError: an expression is not text.
    """
    from lakehouse_lib.expressions import check_generation

    for member in members_of(schema):
        if _is_generated(member):
            raise _refused(member, "is a member of a struct; expected a column", table)
    for name, value in generated_values(schema, table).items():
        field = schema.field(name)
        if not isinstance(field.type, PrimitiveType):
            raise _refused(field, f"has the type {field.type}; expected a primitive type", table)
        sources = sorted(name for name in value.columns if _is_generated(schema.field(name)))
        if sources:
            raise _refused(
                field, f"reads the generated column {sources[0]!r}; expected columns that are not generated", table
            )
        try:
            check_generation(value, field, schema)
        except InvalidPredicateError as error:
            raise _invalid(field, error, table) from None


def title_of(field: Field) -> str:
    """The name of a generated column in errors."""
    return f"GENERATED {field.name} AS ({field.metadata[GENERATION_EXPRESSION]})"


def _rules(_configuration: Mapping[str, str], layout: TableLayout, table: str | None) -> Sequence[ValueRule]:
    schema = layout.schema
    values = generated_values(schema, table)
    if not values:
        return []
    from lakehouse_lib.expressions import ValueRule

    return [
        ValueRule(
            name,
            schema.field(name).type,
            value,
            title_of(schema.field(name)),
            empty_is_null=name in layout.text_partition_columns,
        )
        for name, value in values.items()
    ]


def _is_generated(field: Field) -> bool:
    return GENERATION_EXPRESSION in field.metadata


def _invalid(field: Field, error: InvalidPredicateError, table: str | None) -> InvalidPredicateError:
    return InvalidPredicateError(
        f"{title_of(field)} is not valid: {error.message}", table=table, hint=error.hint, code=error.code
    )


def _refused(field: Field, problem: str, table: str | None) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"the generated column {field.name!r} {problem}",
        table=table,
        hint="Generate a top-level column of a primitive type from columns that are not generated",
        code="DELTA_INVALID_GENERATED_COLUMN",
    )


FEATURE = Feature(
    "generatedColumns",
    False,
    True,
    True,
    field_metadata(GENERATION_EXPRESSION),
    "a write computes the column if the data lacks it, and checks it otherwise; the Arrow engine refuses expressions "
    "that only Spark can evaluate",
    legacy_versions=(1, 4),
    rules=_rules,
)
