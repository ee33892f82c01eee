"""The content of a commit as one value. Every verb that changes metadata or files builds such a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakehouse_lib.expressions import Predicate
from lakehouse_lib.features import protocol_for
from lakehouse_lib.features.checkpoints import checkpoint_protection
from lakehouse_lib.operations.files import record_count, total_size
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA, FILE_SCHEMA, DomainMetadata, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import OptimisticTransaction


@dataclass(frozen=True)
class TableChange:
    """The content of a commit, independent of the version that it will create.

    Attributes:
        operation: commitInfo's operation.
        parameters: commitInfo's operationParameters.
        added, removed: files tables; the removed files are live in the snapshot.
        change_files: files of the change data feed (CHANGE_FILE_SCHEMA).
        metadata: the table's new metadata; None: unchanged. With new metadata, and without ``protocol``, the protocol
            gets the features that the metadata requires.
        features: names of more features that the protocol gets with the metadata.
        versions: the least reader version and writer version that the protocol gets with the metadata.
        protocol: the table's new protocol; None: unchanged, or the protocol that ``metadata`` requires.
        domains: domains that the change writes.
        reads: the predicates that the change read; None among them means the whole table. Empty: a blind write.
        moves_rows: ``added`` has the same rows as ``removed``, so no row changes (``dataChange`` is false).
        keeps_row_ids: copied rows have their row ids in a column of the new files, if the table has row tracking.
        is_exclusive: any concurrent commit is a conflict, even one that changes no file.
        is_serializable: a concurrent append of rows that match ``reads`` is a conflict, whatever the isolation level of
            the table.
        metrics: commitInfo's operationMetrics.
    """

    operation: str
    parameters: Mapping[str, Any]
    added: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], FILE_SCHEMA))
    removed: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], FILE_SCHEMA))
    change_files: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], CHANGE_FILE_SCHEMA))
    metadata: Metadata | None = None
    features: frozenset[str] = frozenset()
    versions: tuple[int, int] = (1, 1)
    protocol: Protocol | None = None
    domains: tuple[DomainMetadata, ...] = ()
    reads: tuple[Predicate | None, ...] = ()
    moves_rows: bool = False
    keeps_row_ids: bool = False
    is_exclusive: bool = False
    is_serializable: bool = False
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def on(self, snapshot: Snapshot | None, store: ObjectStore) -> OptimisticTransaction:
        """The transaction that makes this change to ``snapshot``; if ``snapshot`` is None, it creates the table."""
        transaction = OptimisticTransaction(snapshot, store, self.operation, self.parameters)
        if self.metadata is not None:
            before = None if snapshot is None else snapshot.protocol
            protocol = self.protocol or self._protocol_for(self.metadata, snapshot)
            if protocol != before:
                transaction.set_protocol(protocol)
            metadata = self.metadata
            if snapshot is not None and checkpoint_protection.FEATURE.is_supported(protocol):
                metadata = checkpoint_protection.with_protection_of(metadata, snapshot.metadata)
            transaction.set_metadata(metadata)
        elif self.protocol is not None:
            transaction.set_protocol(self.protocol)
        for domain in self.domains:
            transaction.set_domain(domain)
        for predicate in self.reads:
            transaction.read(predicate)
        transaction.remove(self.removed, data_change=not self.moves_rows)
        transaction.add(self.added, keeps_row_ids=self.keeps_row_ids)
        transaction.add_change_files(self.change_files)
        transaction.is_exclusive = self.is_exclusive
        transaction.is_serializable = self.is_serializable
        transaction.metrics.update(self.metrics)
        return transaction

    def _protocol_for(self, metadata: Metadata, snapshot: Snapshot | None) -> Protocol:
        has_files = snapshot is not None and len(self.removed) < snapshot.file_count
        before = None if snapshot is None else snapshot.protocol
        return protocol_for(metadata, before, has_files=has_files, extra=self.features, versions=self.versions)


def write_metrics(added: pa.Table, removed: pa.Table) -> dict[str, Any]:
    """A write's operationMetrics, under delta-spark's names."""
    metrics = {
        "numFiles": len(added),
        "numOutputRows": record_count(added),
        "numOutputBytes": total_size(added),
    }
    if len(removed):
        metrics |= {"numRemovedFiles": len(removed), "numRemovedBytes": total_size(removed)}
    return metrics
