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
    return frozenset(known.name for known in FEATURES.values() if known.reader and known.is_supported(protocol))


def writer_features(protocol: Protocol) -> frozenset[str]:
    """The features a protocol lists, or those that its versions imply."""
    if protocol.min_writer_version >= 7:
        return protocol.writer_features or frozenset()
    return frozenset(known.name for known in FEATURES.values() if known.is_supported(protocol))


def protocol_for(
    metadata: Metadata, current: Protocol | None = None, *, has_files: bool = True, requested: Iterable[str] = ()
) -> Protocol:
    """The least protocol that has all of ``current`` (1/2 for a new table) and what the metadata requires.

    Args:
        has_files: the table that is there keeps files; features that need a backfill of these are not added by metadata
            alone, so a property that asks for one stays without effect.
        requested: further features, by name.
    """
    schema = Schema.from_json(metadata.schema_string)
    backfilled = current is None or not has_files
    required = {
        known.name
        for known in FEATURES.values()
        if known.writes and known.enabled(metadata.configuration, schema) and (backfilled or not known.needs_backfill)
    }
    return with_features(current or _BASE, required.union(requested))


def with_features(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The least protocol that has all of ``protocol`` and these features, with what they require.

    While every missing feature is a legacy one, versions without lists that imply them are enough. Otherwise the
    protocol lists its features, and those that its versions implied.
    """
    wanted = set(names)
    wanted |= {needed for name in wanted for needed in FEATURES[name].requires}
    missing = [FEATURES[name] for name in sorted(wanted) if not FEATURES[name].is_supported(protocol)]
    if not missing:
        return protocol
    versions = [known.legacy for known in missing if known.legacy is not None]
    if protocol.min_writer_version < 7 and len(versions) == len(missing):
        return Protocol(
            max(protocol.min_reader_version, *(reader for reader, _ in versions)),
            max(protocol.min_writer_version, *(writer for _, writer in versions)),
        )
    listed = writer_features(protocol) | {known.name for known in missing}
    readers = {known.name for known in missing if known.reader}
    if not readers:
        return Protocol(protocol.min_reader_version, 7, protocol.reader_features, listed)
    return Protocol(3, 7, reader_features(protocol) | readers, listed)
