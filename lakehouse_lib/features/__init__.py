"""Table features: what this library reads, writes and refuses, and why.

A table that lists an unsupported feature is refused only if it uses the feature. This applies also to features that a
legacy protocol version implies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.features.change_data_feed import has_change_data_feed as has_change_data_feed
    from lakehouse_lib.features.column_mapping import with_physical_names as with_physical_names
    from lakehouse_lib.features.feature import Feature as Feature
    from lakehouse_lib.features.property_validation import changed_configuration as changed_configuration
    from lakehouse_lib.features.property_validation import requested_features as requested_features
    from lakehouse_lib.features.property_validation import requested_versions as requested_versions
    from lakehouse_lib.features.protocol_upgrade import listing as listing
    from lakehouse_lib.features.protocol_upgrade import protocol_for as protocol_for
    from lakehouse_lib.features.protocol_upgrade import reader_features as reader_features
    from lakehouse_lib.features.protocol_upgrade import with_features as with_features
    from lakehouse_lib.features.protocol_upgrade import without_feature as without_feature
    from lakehouse_lib.features.protocol_upgrade import writer_features as writer_features
    from lakehouse_lib.features.rules_of_rows import row_rules as row_rules
    from lakehouse_lib.features.support import check_read as check_read
    from lakehouse_lib.features.support import check_removal as check_removal
    from lakehouse_lib.features.support import check_write as check_write
    from lakehouse_lib.features.table_features import FEATURES as FEATURES
    from lakehouse_lib.features.table_features import TYPES as TYPES

#: The module of each name, below this package.
_MODULES = {
    "FEATURES": "table_features",
    "Feature": "feature",
    "TYPES": "table_features",
    "changed_configuration": "property_validation",
    "check_read": "support",
    "check_removal": "support",
    "check_write": "support",
    "has_change_data_feed": "change_data_feed",
    "listing": "protocol_upgrade",
    "protocol_for": "protocol_upgrade",
    "reader_features": "protocol_upgrade",
    "requested_features": "property_validation",
    "requested_versions": "property_validation",
    "row_rules": "rules_of_rows",
    "with_features": "protocol_upgrade",
    "with_physical_names": "column_mapping",
    "without_feature": "protocol_upgrade",
    "writer_features": "protocol_upgrade",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
