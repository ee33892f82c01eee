"""Protocol upgrades: the lowest protocol that metadata and features require (PROTOCOL.md, Table Features)."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse_lib.features.table_features import FEATURES
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.schema import Schema

_BASE = Protocol(1, 2)


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader must support: those that the protocol lists, or those that its versions imply."""
    if protocol.min_reader_version >= 3:
        return protocol.reader_features or frozenset()
    return frozenset(feature.name for feature in FEATURES.values() if feature.reader and feature.is_supported(protocol))


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features that a writer must support: those that the protocol lists, or those that its versions imply."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    return frozenset(feature.name for feature in FEATURES.values() if feature.is_supported(protocol))


def protocol_for(
    metadata: Metadata, current: Protocol | None = None, *, has_files: bool = True, extra: Iterable[str] = ()
) -> Protocol:
    """The lowest protocol that has all features of ``current`` and those that the metadata requires.

    Args:
        current: the table's protocol; None: versions 1 and 2, for a new table.
        has_files: whether the existing table has files. If it has files, metadata alone does not add a feature that
            needs a backfill, and the property that enables the feature has no effect.
        extra: names of further features.
    """
    schema = Schema.from_json(metadata.schema_string)
    is_empty = current is None or not has_files
    names = {
        feature.name
        for feature in FEATURES.values()
        if feature.writes
        and feature.enabled(metadata.configuration, schema)
        and (is_empty or not feature.needs_backfill)
    }
    return with_features(current or _BASE, names.union(extra))


def with_features(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The lowest protocol that has all features of ``protocol``, the named features, and the features they require.

    If versions imply all features to be added, the protocol only gets higher versions. Otherwise it gets lists, which
    also contain the features that its versions implied.
    """
    features = {FEATURES[name] for name in names}
    features |= {FEATURES[name] for feature in features for name in feature.requires}
    additions = [feature for feature in features if not feature.is_supported(protocol)]
    if not additions:
        return protocol
    versions = [feature.legacy for feature in additions if feature.legacy is not None]
    if protocol.min_writer_version < 7 and len(versions) == len(additions):
        return Protocol(
            max(protocol.min_reader_version, *(reader for reader, _ in versions)),
            max(protocol.min_writer_version, *(writer for _, writer in versions)),
        )
    writers = writer_features(protocol) | {feature.name for feature in additions}
    readers = {feature.name for feature in additions if feature.reader}
    if not readers:
        return Protocol(protocol.min_reader_version, 7, protocol.reader_features, writers)
    return Protocol(3, 7, reader_features(protocol) | readers, writers)
