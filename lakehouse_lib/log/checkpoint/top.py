"""The top object of a checkpoint: the object that is not a sidecar. Opening it reads its footer and all of its actions
except file actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.parquet as pq

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log.checkpoint.part import JsonPart, ParquetPart, Part, unreadable, unreadable_as_error
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol, Transaction
from lakehouse_lib.store import ObjectMeta, ObjectStore

_Action = TypeVar("_Action")

_SMALL_ACTIONS = ("metaData", "protocol", "txn", "domainMetadata", "sidecar")


@dataclass(frozen=True)
class Top:
    """A top object: its file actions, which are read on demand (``part``), and its other actions.

    Attributes:
        sidecars: the bodies of its sidecar actions.
    """

    part: Part
    metadata: Sequence[Metadata]
    protocol: Sequence[Protocol]
    transactions: Sequence[Transaction]
    domains: Sequence[DomainMetadata]
    sidecars: Sequence[Mapping[str, Any]]


def open_top(store: ObjectStore, meta: ObjectMeta, version: int) -> Top:
    """Open a top object; a small one takes one request.

    Raises:
        LogCorruptedError: the object is missing or cannot be read.
    """
    if meta.path.endswith(".json"):
        json = JsonPart(store, meta, version)
        lines = json.actions
        return Top(json, lines.metadata, lines.protocol, lines.transactions, lines.domains, lines.sidecars)
    with unreadable_as_error(store, meta.path, version), store.open_input(meta.path) as source:
        file = pq.ParquetFile(source)
        part = ParquetPart(store, meta, version, file)
        bodies = part.bodies(_SMALL_ACTIONS, file)

    def actions(name: str, parse: Callable[[Mapping[str, Any]], _Action]) -> list[_Action]:
        try:
            return [parse(body) for body in bodies[name]]
        except (LogCorruptedError, TypeError, ValueError) as error:
            why = error.message if isinstance(error, LogCorruptedError) else str(error)
            raise unreadable(store, meta.path, version, why) from error

    return Top(
        part,
        actions("metaData", lambda body: Metadata.from_json(_pairs_to_maps(body))),
        actions("protocol", Protocol.from_json),
        actions("txn", Transaction.from_json),
        actions("domainMetadata", DomainMetadata.from_json),
        bodies["sidecar"],
    )


def _pairs_to_maps(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a metaData action with maps as dictionaries, as in JSON; Arrow gives each map as a list of pairs."""
    json_body = _with_map(body, "configuration")
    if isinstance(body.get("format"), dict):
        json_body["format"] = _with_map(body["format"], "options")
    return json_body


def _with_map(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    pairs = body.get(key)
    return {**body, key: dict(pairs)} if isinstance(pairs, list) else dict(body)
