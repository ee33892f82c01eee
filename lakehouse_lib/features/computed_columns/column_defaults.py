"""The feature allowColumnDefaults: values for columns that new rows lack (PROTOCOL.md, Default Columns).

``CURRENT_DEFAULT`` in the metadata of a column is a SQL expression of Spark that reads no column. Rows that were
written before a column had a default keep their values. If the data has the column, null stays null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.errors import InvalidPredicateError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features.feature import Feature, field_metadata
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.schema.nested_fields import members_of
from lakehouse_lib.schema.rows.enforcement import CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Value

FEATURE = Feature(
    "allowColumnDefaults",
    False,
    True,
    True,
    field_metadata(CURRENT_DEFAULT),
    "a write uses the default if the data lacks the column; the Arrow engine refuses defaults that only Spark can "
    "evaluate",
)


def default_values(schema: Schema, table: str | None = None) -> dict[str, Value]:
    """The defaults of a table, by column. A function such as ``current_date()`` is replaced by its current value.

    Raises:
        UnsupportedFeatureError: a default is not text.
        InvalidPredicateError: a default does not parse, reads a column, or cannot be assigned to its column.
    """
    return {
        field.name: default_value(field, field.metadata[CURRENT_DEFAULT], table)
        for field in schema.fields
        if CURRENT_DEFAULT in field.metadata
    }


def default_value(field: Field, sql: object, table: str | None = None) -> Value:
    """The value of a default for a column; raises the errors of ``default_values``."""
    if not isinstance(sql, str):
        raise UnsupportedFeatureError(
            f"the default of column {field.name!r} is {excerpt(sql)} (allowColumnDefaults); expected SQL",
            table=table,
            hint="Write the default as text, such as \"'new'\" or '0'",
        )
    from lakehouse_lib.expressions import parse_value  # only for tables with defaults

    try:
        return parse_value(sql, field, Schema([]), table=table)
    except InvalidPredicateError as error:
        reads_column = error.code == "DELTA_PREDICATE_COLUMN_NOT_FOUND"
        raise InvalidPredicateError(
            f"the default of column {field.name!r} is not valid: {error.message}",
            table=table,
            hint="A default reads no column; write text in quotes" if reads_column else error.hint,
            code=error.code,
        ) from error


def check_defaults(schema: Schema, table: str | None) -> None:
    """Refuse defaults that a new table cannot have.

    Raises:
        InvalidSchemaError: a member of a struct, a generated column or an identity column has a default.
        DeltaError: the errors of ``default_values``.
    """
    for field in schema.fields:
        problems = {GENERATION_EXPRESSION: "is generated", IDENTITY_START: "is an identity column"}
        problem = next((problem for key, problem in problems.items() if key in field.metadata), None)
        if CURRENT_DEFAULT in field.metadata and problem is not None:
            raise _refused(field.name, problem, table)
    for member in members_of(schema):
        if CURRENT_DEFAULT in member.metadata:
            raise _refused(member.name, "is a member of a struct", table)
    default_values(schema, table)


def _refused(name: str, problem: str, table: str | None) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"the column {name!r} has a default and {problem}; expected a top-level column with one source of values",
        table=table,
        hint="Leave the default out",
        code="DELTA_INVALID_COLUMN_DEFAULT",
    )
