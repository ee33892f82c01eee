"""The features that a table has by its protocol: listed, or implied by its versions (PROTOCOL.md, Table Features)."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.features.table_features import FEATURES
from lakehouse_lib.protocol.actions import Protocol

#: What a version without feature lists implies, cumulatively.
READER_IMPLIES: Mapping[int, tuple[str, ...]] = {2: ("columnMapping",)}
WRITER_IMPLIES: Mapping[int, tuple[str, ...]] = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features a reader must know: those that a protocol lists, or those that its versions imply.

    A legacy feature of readers and writers is implied only where both versions reach it, as in delta-spark.
    """
    if protocol.min_reader_version >= 3:
        return protocol.reader_features or frozenset()
    return _implied(READER_IMPLIES, protocol.min_reader_version) & writer_features(protocol)


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features a protocol lists, or those that its versions imply (as of ``reader_features``)."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    by_readers = _implied(READER_IMPLIES, protocol.min_reader_version)
    implied = _implied(WRITER_IMPLIES, protocol.min_writer_version)
    return frozenset(name for name in implied if name in by_readers or not FEATURES[name].reader)


def _implied(by_version: Mapping[int, tuple[str, ...]], version: int) -> frozenset[str]:
    return frozenset(name for since, names in by_version.items() if since <= version for name in names)
