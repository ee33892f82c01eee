"""The commit of a change of metadata or protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties


def commit_change(
    snapshot: Snapshot,
    operation: str,
    parameters: Mapping[str, Any],
    *,
    metadata: Metadata | None = None,
    protocol: Protocol | None = None,
    features: Iterable[str] = (),
    versions: tuple[int, int] = (1, 1),
    domains: Iterable[DomainMetadata] = (),
    reads: Iterable[Predicate | None] = (),
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Commit new metadata, a new protocol or domains. No data file changes.

    Args:
        operation, parameters: as in commitInfo.
        metadata: the new metadata. Without ``protocol``, the protocol gets the features that the metadata requires.
        features: more features that the protocol gets with the metadata.
        versions: the least reader version and writer version that the protocol gets with the metadata.
        domains: domains that the commit writes.
        reads: the predicates of the rows that the change depends on; None among them: all rows.

    Raises:
        UnsupportedFeatureError: this library cannot write the table, before or after the change.
        CommitFailedError: a concurrent commit conflicts with this one; MetadataChangedError if it changed the metadata.
        CommitUnknownError: the store gave no answer to the commit.
    """
    change = TableChange(
        operation,
        parameters,
        metadata=metadata,
        protocol=protocol,
        features=frozenset(features),
        versions=versions,
        domains=tuple(domains),
        reads=tuple(reads),
    )
    outcome = change.on(snapshot, snapshot.store).commit(commit_properties)
    return OperationResult(snapshot.store.root, snapshot.version, version_of(outcome))
