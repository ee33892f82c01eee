"""The rules for the rows of a table, in the order in which a write checks them."""

from __future__ import annotations

from lakehouse_lib.features.table_features import FEATURES
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import RowRule, Schema, TableLayout, not_null_rules, text_length_rules


def row_rules(metadata: Metadata, table: str | None = None) -> tuple[RowRule, ...]:
    """The rules for rows of a table with this metadata: NOT NULL, CHAR and VARCHAR, then those of features.

    Two rules are equal only if they refuse the same rows.

    Args:
        table: the table's location, for errors.

    Raises:
        InvalidPredicateError: the condition of a constraint does not parse, or names a column that does not exist.
        UnsupportedFeatureError: an invariant is not a SQL condition.
    """
    layout = _layout(metadata)
    return (*not_null_rules(layout), *text_length_rules(layout), *feature_rules(metadata, table))


def feature_rules(metadata: Metadata, table: str | None = None) -> tuple[RowRule, ...]:
    """The rules of features; arguments and errors as of ``row_rules``."""
    layout = _layout(metadata)
    return tuple(rule for feature in FEATURES.values() for rule in feature.rules(metadata.configuration, layout, table))


def _layout(metadata: Metadata) -> TableLayout:
    return TableLayout(Schema.from_json(metadata.schema_string), metadata.partition_columns)
