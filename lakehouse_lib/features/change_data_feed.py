"""The feature changeDataFeed: readers can read each changed row of a commit (PROTOCOL.md, Change Data Files)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, HasProperty
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import CHANGE_DATA_FEED

FEATURE = Feature(
    "changeDataFeed",
    False,
    True,
    True,
    HasProperty(CHANGE_DATA_FEED),
    "a commit writes change files if it updates rows, or copies a file without its deleted rows; after other commits, "
    "readers derive the changes from the added and removed files",
    legacy_versions=(1, 4),
)


def has_change_data_feed(metadata: Metadata) -> bool:
    """Whether the table has a change data feed."""
    return CHANGE_DATA_FEED.is_on(metadata.configuration)
