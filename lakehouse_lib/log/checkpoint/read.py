"""The opening of a checkpoint. Actions that are not files are read at once, file actions on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checkpoint.part import Part, unreadable
from lakehouse_lib.log.checkpoint.rows import CheckpointRows
from lakehouse_lib.log.checkpoint.sidecars import open_sidecar
from lakehouse_lib.log.checkpoint.top import open_top
from lakehouse_lib.log.segment import Checkpoint
from lakehouse_lib.protocol.actions import (
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests


@dataclass(frozen=True)
class CheckpointState:
    """The state in a checkpoint."""

    files: CheckpointRows
    tombstones: CheckpointRows
    metadata: Metadata
    protocol: Protocol
    transactions: Mapping[str, Transaction]
    domains: Mapping[str, DomainMetadata]

    @property
    def nbytes(self) -> int:
        """Bytes that are in memory now."""
        return self.files.nbytes + self.tombstones.nbytes + sum(part.nbytes for part in self.files.parts)


def read_checkpoint(store: ObjectStore, checkpoint: Checkpoint) -> CheckpointState:
    """The state in a checkpoint, cached in this process. File actions in Parquet are not read, only the footers.

    Raises:
        LogCorruptedError: an object of the checkpoint is missing or cannot be read, or the checkpoint has no protocol
            or metaData action; the caller may use another checkpoint.
    """
    return CACHE.get(store, checkpoint.parts, lambda: _read(store, checkpoint), lambda state: state.nbytes, grows=True)


def forget_checkpoint(store: ObjectStore, checkpoint: Checkpoint) -> None:
    """Drop a checkpoint from the cache, because it cannot be read or one of its sidecars was replaced."""
    CACHE.forget(store, checkpoint.parts)


def _read(store: ObjectStore, checkpoint: Checkpoint) -> CheckpointState:
    tops = map_requests(store, lambda meta: open_top(store, meta, checkpoint.version), checkpoint.parts)
    references = [(top.part.path, body.get("path")) for top in tops for body in top.sidecars]
    metadata = next((metadata for top in tops for metadata in top.metadata), None)
    protocol = next((protocol for top in tops for protocol in top.protocol), None)
    if metadata is None or protocol is None:
        name = "protocol" if protocol is None else "metaData"
        raise unreadable(store, checkpoint.parts[0].path, checkpoint.version, f"it has no {name} action")
    sidecars = map_requests(store, lambda reference: open_sidecar(store, *reference, checkpoint.version), references)
    parts: list[Part] = [*(top.part for top in tops), *sidecars]
    return CheckpointState(
        CheckpointRows(store, checkpoint.version, parts, "add", FILE_SCHEMA),
        CheckpointRows(store, checkpoint.version, parts, "remove", TOMBSTONE_SCHEMA),
        metadata,
        protocol,
        {transaction.app_id: transaction for top in tops for transaction in top.transactions},
        {domain.domain: domain for top in tops for domain in top.domains if not domain.removed},
    )
