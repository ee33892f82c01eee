"""The features that a table has by its protocol, and the protocol that its metadata requires (PROTOCOL.md, Table
Features)."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse_lib.features.table_features import FEATURES
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.schema import Schema

_BASE = Protocol(1, 2)


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features a reader must know: those that a protocol lists, or those that its versions imply."""
    if protocol.min_reader_version >= 3:
        return protocol.reader_features or frozenset()
    return frozenset(feature.name for feature in FEATURES.values() if feature.reader and feature.is_supported(protocol))


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features a protocol lists, or those that its versions imply."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    return frozenset(feature.name for feature in FEATURES.values() if feature.is_supported(protocol))


def protocol_for(
    metadata: Metadata, current: Protocol | None = None, *, has_files: bool = True, extra: Iterable[str] = ()
) -> Protocol:
    """The least protocol that has all of ``current`` (1/2 for a new table) and what the metadata requires.

    Args:
        has_files: the table that is there keeps files; features that need a backfill of these are not added by metadata
            alone, so a property that enables one stays without effect.
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
    """The least protocol that has all of ``protocol`` and these features, with what they require.

    While every feature to be added is a legacy one, versions without lists that imply them are enough. Otherwise the
    protocol lists its features, and those that its versions implied.
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
