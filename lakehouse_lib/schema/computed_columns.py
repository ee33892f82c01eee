"""Columns whose values a write computes if the data does not have them, by their metadata in the schema."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse_lib.schema.nesting import all_types
from lakehouse_lib.schema.types import Field, Schema, StructType

#: The SQL expression of a generated column (PROTOCOL.md, Generated Columns).
GENERATION_EXPRESSION = "delta.generationExpression"
#: The SQL expression for rows that lack the column (PROTOCOL.md, Default Columns).
CURRENT_DEFAULT = "CURRENT_DEFAULT"
#: The first number of an identity column (PROTOCOL.md, Identity Columns).
IDENTITY_START = "delta.identity.start"


def is_computed(field: Field) -> bool:
    """Whether a write computes the values of a top-level column that the data does not have."""
    return not field.metadata.keys().isdisjoint((GENERATION_EXPRESSION, CURRENT_DEFAULT, IDENTITY_START))


def inner_fields(schema: Schema) -> Iterator[Field]:
    """The members of the structs in a schema, at every depth, without the columns."""
    for kind in all_types(schema):
        if isinstance(kind, StructType) and kind is not schema:
            yield from kind.fields
