"""The rules for the rows of a table, in the order in which a write checks them."""

from __future__ import annotations

from lakehouse_lib.features.table_features import FEATURES
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import RowRule, Schema, TableLayout, not_null_rules


def row_rules(metadata: Metadata) -> tuple[RowRule, ...]:
    """The rules for rows of a table with this metadata: NOT NULL first, then the rules of features.

    Equal rules refuse the same rows.
    """
    schema = Schema.from_json(metadata.schema_string)
    layout = TableLayout(schema, metadata.partition_columns)
    of_features = (rule for feature in FEATURES.values() for rule in feature.rules(metadata.configuration, schema))
    return (*not_null_rules(layout), *of_features)
