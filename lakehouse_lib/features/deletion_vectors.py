"""The feature deletionVectors, and whether commands write deletion vectors (PROTOCOL.md, Deletion Vectors)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, HasProperty
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import DELETION_VECTORS

FEATURE = Feature(
    "deletionVectors",
    True,
    True,
    True,
    HasProperty(DELETION_VECTORS),
    f"delete, update, merge and overwrites by a predicate write deletion vectors if {DELETION_VECTORS.key} is true",
)


def are_written(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether commands write deletion vectors: the protocol has the feature and the property enables it."""
    return FEATURE.is_supported(protocol) and DELETION_VECTORS.is_on(metadata.configuration)
