"""Open a checkpoint: its few actions at once, its files when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from lakehouse_lib.actions import FILE_SCHEMA, TOMBSTONE_SCHEMA, DomainMetadata, Metadata, Protocol, Transaction
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log import names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checkpoints.part import JsonPart, ParquetPart, Part, unreadable
from lakehouse_lib.log.checkpoints.rows import CheckpointRows
from lakehouse_lib.log.segment import Checkpoint
from lakehouse_lib.store.base import ObjectMeta, ObjectStore

_Action = TypeVar("_Action")


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint says."""

    files: CheckpointRows
    tombstones: CheckpointRows
    metadata: Metadata | None
    protocol: Protocol | None
    transactions: Mapping[str, Transaction]
    domains: Mapping[str, DomainMetadata]

    @property
    def nbytes(self) -> int:
        """What is kept in memory by now."""
        return self.files.nbytes + self.tombstones.nbytes + sum(part.nbytes for part in self.files.parts)


def read_checkpoint(store: ObjectStore, checkpoint: Checkpoint) -> CheckpointState:
    """The state a checkpoint holds; of the files nothing but the footers is read. Remembered in this process.

    Raises:
        LogCorruptedError: an object of it is missing or cannot be read; the caller may fall back to another checkpoint.
    """
    return CACHE.get(store, checkpoint.parts, lambda: _read(store, checkpoint), lambda state: state.nbytes, grows=True)


def forget_checkpoint(store: ObjectStore, checkpoint: Checkpoint) -> None:
    """Read it anew the next time: it turned out unreadable, or one of its sidecars is another object by now."""
    CACHE.forget(store, checkpoint.parts)


def _read(store: ObjectStore, checkpoint: Checkpoint) -> CheckpointState:
    tops = [_part(store, meta, checkpoint.version) for meta in checkpoint.parts]
    sidecars = [
        ParquetPart(store, meta, checkpoint.version)
        for top in tops
        for meta in _sidecars(store, top, checkpoint.version)
    ]
    parts: list[Part] = [*tops, *sidecars]
    domains = [one for top in tops for one in _actions(store, top, "domainMetadata", checkpoint.version)]
    return CheckpointState(
        CheckpointRows(store, checkpoint.version, parts, "add", FILE_SCHEMA),
        CheckpointRows(store, checkpoint.version, parts, "remove", TOMBSTONE_SCHEMA),
        next((one for top in tops for one in _actions(store, top, "metaData", checkpoint.version)), None),
        next((one for top in tops for one in _actions(store, top, "protocol", checkpoint.version)), None),
        {one.app_id: one for top in tops for one in _actions(store, top, "txn", checkpoint.version)},
        {one.domain: one for one in domains if not one.removed},
    )


def _part(store: ObjectStore, meta: ObjectMeta, version: int) -> ParquetPart | JsonPart:
    return (JsonPart if meta.path.endswith(".json") else ParquetPart)(store, meta, version)


def _sidecars(store: ObjectStore, top: Part, version: int) -> Iterator[ObjectMeta]:
    for body in top.bodies("sidecar"):
        path = body.get("path")
        if not isinstance(path, str):
            raise unreadable(store, top.path, version, f"it names a sidecar {path!r}")
        # However it is spelled, a sidecar lives in one folder only.
        sidecar = f"{names.SIDECARS}/{unquote(path).rsplit('/', 1)[-1]}"
        meta = store.head(sidecar)
        if meta is None:
            raise unreadable(store, top.path, version, f"its sidecar {sidecar} is missing")
        yield meta


def _actions(store: ObjectStore, top: ParquetPart | JsonPart, action: str, version: int) -> Sequence[Any]:
    if isinstance(top, JsonPart):
        found = top.actions
        return {
            "metaData": found.metadata,
            "protocol": found.protocol,
            "txn": found.transactions,
            "domainMetadata": found.domains,
        }[action]
    try:
        return [_PARSERS[action](_pairs_to_maps(body)) for body in top.bodies(action)]
    except (LogCorruptedError, TypeError, ValueError) as error:
        why = error.message if isinstance(error, LogCorruptedError) else str(error)
        raise unreadable(store, top.path, version, why) from error


_PARSERS = {
    "metaData": Metadata.from_json,
    "protocol": Protocol.from_json,
    "txn": Transaction.from_json,
    "domainMetadata": DomainMetadata.from_json,
}


def _pairs_to_maps(body: Mapping[str, Any]) -> dict[str, Any]:
    """Arrow's maps, which are lists of pairs, as the dictionaries of the JSON form."""
    mended = dict(body)
    if "configuration" in body and not isinstance(body["configuration"], str):
        mended["configuration"] = dict(body["configuration"] or [])
    if isinstance(body.get("format"), dict):
        mended["format"] = body["format"] | {"options": dict(body["format"].get("options") or [])}
    return mended
