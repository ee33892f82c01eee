"""The feature typeWidening: columns get wider types, and old files keep the old types (PROTOCOL.md, Type Widening)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, HasProperty, field_metadata
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import TYPE_WIDENING
from lakehouse_lib.schema.type_widening import CHANGES

#: The test whether the type of a column was changed.
has_changes = field_metadata(CHANGES)

FEATURE = Feature(
    "typeWidening",
    True,
    True,
    True,
    HasProperty(TYPE_WIDENING),
    f"values of old files are upcast; alter.change_column_type widens types if {TYPE_WIDENING.key} is true; type "
    "changes that the protocol does not allow are refused",
    in_use=has_changes,
)


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the types of columns may change: the protocol has the feature and the property enables it."""
    return FEATURE.is_supported(protocol) and TYPE_WIDENING.is_on(metadata.configuration)
