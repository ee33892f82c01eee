"""Changes of a protocol: the lowest protocol that metadata and features require (PROTOCOL.md, Table Features)."""

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
    metadata: Metadata,
    current: Protocol | None = None,
    *,
    has_files: bool = True,
    extra: Iterable[str] = (),
    versions: tuple[int, int] = (1, 1),
) -> Protocol:
    """The lowest protocol that has all features of ``current`` and those that the metadata requires.

    Args:
        current: the table's protocol; None: versions 1 and 2, for a new table.
        has_files: whether the existing table has files. If it has files, metadata alone does not add a feature that
            needs a backfill, and the property that enables the feature has no effect.
        extra: names of further features.
        versions: the least reader version and writer version.
    """
    schema = Schema.from_json(metadata.schema_string)
    is_empty = current is None or not has_files
    names = {
        feature.name
        for feature in FEATURES.values()
        if feature.writes
        and feature.is_required_by(metadata.configuration, schema)
        and (is_empty or not feature.needs_backfill)
    }
    return with_features(with_versions(current or _BASE, versions), names.union(extra))


def with_versions(protocol: Protocol, versions: tuple[int, int]) -> Protocol:
    """The protocol with at least this reader version and writer version. Reader version 3 needs writer version 7.

    Version 7 implies no feature, so the protocol then gets lists of the features that its versions implied.
    """
    reader, writer = max(protocol.min_reader_version, versions[0]), max(protocol.min_writer_version, versions[1])
    if (reader, writer) == (protocol.min_reader_version, protocol.min_writer_version):
        return protocol
    if reader < 3 and writer < 7:
        return Protocol(reader, writer)
    return Protocol(reader, 7, reader_features(protocol) if reader >= 3 else None, writer_features(protocol))


def listing(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The lowest protocol that has all features of ``protocol``, and lists the named features and their requirements.

    Versions 3 and 7 imply no feature. So a protocol without lists gets lists of all features that its versions implied.
    """
    features = {FEATURES[name] for name in names}
    features |= {FEATURES[name] for feature in features for name in feature.requires}
    writers = writer_features(protocol) | {feature.name for feature in features}
    readers = {feature.name for feature in features if feature.reader}
    if not readers and protocol.min_reader_version < 3:
        return Protocol(protocol.min_reader_version, 7, None, writers)
    return Protocol(3, 7, reader_features(protocol) | readers, writers)


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
    versions = [feature.legacy_versions for feature in additions if feature.legacy_versions is not None]
    if protocol.min_writer_version < 7 and len(versions) == len(additions):
        return Protocol(
            max(protocol.min_reader_version, *(reader for reader, _ in versions)),
            max(protocol.min_writer_version, *(writer for _, writer in versions)),
        )
    return listing(protocol, (feature.name for feature in additions))


def without_feature(protocol: Protocol, name: str) -> Protocol:
    """The lowest protocol that has all features of ``protocol`` except one.

    As in delta-spark, the protocol has lists only if no versions imply exactly the remaining features.
    """
    readers, writers = reader_features(protocol) - {name}, writer_features(protocol) - {name}
    versions = [FEATURES[reader].legacy_versions for reader in readers]
    reader = max((3 if version is None else version[0] for version in versions), default=1)
    if reader < 3:
        for version in range(1, 7):
            candidate = Protocol(reader, version)
            if (reader_features(candidate), writer_features(candidate)) == (readers, writers):
                return candidate
    return Protocol(reader, 7, readers if reader == 3 else None, writers)
