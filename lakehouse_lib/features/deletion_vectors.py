"""Deletion vectors: rows that are deleted without rewriting their files (PROTOCOL.md, Deletion Vectors)."""

from __future__ import annotations

from lakehouse_lib import features
from lakehouse_lib.protocol.actions import Metadata, Protocol

PROPERTY = "delta.enableDeletionVectors"


def are_written(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether verbs that delete rows write deletion vectors: the protocol has the feature and the property is true."""
    return (
        "deletionVectors" in features.writer_features(protocol)
        and metadata.configuration.get(PROPERTY, "").lower() == "true"
    )
