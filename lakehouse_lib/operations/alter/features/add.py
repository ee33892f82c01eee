"""Add table features to the protocol of a table."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.features import FEATURES, listing
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def plan_features(snapshot: Snapshot, names: Sequence[str], *, allow_protocol_versions_increase: bool) -> Protocol:
    """The protocol with more features in its lists.

    Raises:
        UnsupportedFeatureError: this library does not know a feature.
        InvalidArgumentError: the protocol needs higher versions to list the features, but
            ``allow_protocol_versions_increase`` is False.
    """
    table, current = snapshot.store.root, snapshot.protocol
    unknown = [name for name in names if name not in FEATURES]
    if unknown or not names:
        raise UnsupportedFeatureError(
            f"the features are {list(names)}; expected features that this library knows",
            table=table,
            version=snapshot.version,
            hint="docs/protocol-support.md lists them",
        )
    protocol = listing(current, names)
    versions = (current.min_reader_version, current.min_writer_version)
    needed = (protocol.min_reader_version, protocol.min_writer_version)
    if needed != versions and not allow_protocol_versions_increase:
        raise InvalidArgumentError(
            f"the protocol has reader version {versions[0]} and writer version {versions[1]}; expected {needed[0]} and "
            f"{needed[1]}, to list {', '.join(names)}",
            table=table,
            version=snapshot.version,
            hint="Use allow_protocol_versions_increase=True, if all readers and writers of the table support them",
            code="DELTA_PROTOCOL_VERSIONS_TOO_LOW",
        )
    return protocol


def add_features(
    snapshot: Snapshot,
    names: Sequence[str],
    *,
    allow_protocol_versions_increase: bool = False,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Add features, and the features that they require, to the protocol. Properties that enable them are not set.

    Args:
        names: names as in the protocol, such as ``deletionVectors``.
        allow_protocol_versions_increase: raise the reader version to 3 and the writer version to 7, if the protocol
            needs them to list the features.

    Raises:
        UnsupportedFeatureError: this library does not know a feature, or could not write the table with it.
        InvalidArgumentError: as ``plan_features``.
        ProtocolChangedError: another writer changed the protocol first.
    """
    snapshot.check_writable()
    protocol = plan_features(snapshot, names, allow_protocol_versions_increase=allow_protocol_versions_increase)
    return commit_change(
        snapshot, "ADD FEATURE", {"name": list(names)}, protocol=protocol, commit_properties=commit_properties
    )
