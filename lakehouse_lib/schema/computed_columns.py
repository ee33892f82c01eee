"""Columns whose values a write computes if the data does not have them, by their metadata in the schema."""

from __future__ import annotations

from lakehouse_lib.schema.types import Field

#: The SQL expression of a generated column (PROTOCOL.md, Generated Columns).
GENERATION_EXPRESSION = "delta.generationExpression"


def is_computed(field: Field) -> bool:
    """Whether a write computes the values of a top-level column that the data does not have."""
    return GENERATION_EXPRESSION in field.metadata
