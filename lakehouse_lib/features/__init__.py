"""Table features: what this library reads, writes and refuses, and why.

A table that lists an unsupported feature is refused only if it uses the feature. This applies also to features that a
legacy protocol version implies.
"""

from lakehouse_lib.features.change_data_feed import has_change_data_feed
from lakehouse_lib.features.column_mapping import with_physical_names
from lakehouse_lib.features.feature import Feature
from lakehouse_lib.features.property_validation import changed_configuration, requested_features, requested_versions
from lakehouse_lib.features.protocol_upgrade import (
    listing,
    protocol_for,
    reader_features,
    with_features,
    without_feature,
    writer_features,
)
from lakehouse_lib.features.row_rules import row_rules
from lakehouse_lib.features.support import check_read, check_removal, check_write
from lakehouse_lib.features.table_features import FEATURES, TYPES

__all__ = [
    "FEATURES",
    "TYPES",
    "Feature",
    "changed_configuration",
    "check_read",
    "check_removal",
    "check_write",
    "has_change_data_feed",
    "listing",
    "protocol_for",
    "reader_features",
    "requested_features",
    "requested_versions",
    "row_rules",
    "with_features",
    "with_physical_names",
    "without_feature",
    "writer_features",
]
