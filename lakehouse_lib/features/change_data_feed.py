"""Tables whose changes can be read back (PROTOCOL.md, Change Data Files)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, PropertySet
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import CHANGE_DATA_FEED

FEATURE = Feature(
    "changeDataFeed",
    False,
    True,
    True,
    PropertySet(CHANGE_DATA_FEED),
    "appends need no change files; deleting or overwriting rows is refused until they are written",
    legacy=(1, 4),
)


def has_change_data_feed(metadata: Metadata) -> bool:
    """Whether commits to the table keep its change data feed."""
    return CHANGE_DATA_FEED.is_on(metadata.configuration)
