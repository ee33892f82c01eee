"""What a table's log says of an erasure: its deletes, and until when the log mentions the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from lakehouse_lib.errors import LogCorruptedError, VersionNotFoundError
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.protocol.table_properties import log_retention
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store


@dataclass(frozen=True)
class Traces:
    """An erasure in the log of one table.

    Attributes:
        deleted: deleted rows by version, of the request's commits that the log still has.
        log_retention: how long the log keeps its entries; None: for ever.
    """

    deleted: Mapping[int, int]
    log_retention: timedelta | None


def find_traces(table_uri: str, request: str, since: int, *, storage_options: dict[str, str] | None = None) -> Traces:
    """Read the traces of an erasure request in a table's log, from the version ``since`` on."""
    snapshot = load_snapshot(open_store(table_uri, storage_options))
    deleted: dict[int, int] = {}
    for commit in list_commits(snapshot.store, since):
        with suppress(VersionNotFoundError, LogCorruptedError):
            info = read_commit(snapshot.store, commit.version, size=commit.size).info
            if info.get("operationParameters") == {"predicate": json.dumps([f"erasure {request}"])}:
                deleted[commit.version] = int(info["operationMetrics"]["numDeletedRows"])
    return Traces(deleted, log_retention(snapshot.configuration, snapshot.store.root))


def table_ids(table_uri: str, version: int, *, storage_options: dict[str, str] | None = None) -> set[str]:
    """The ids of the table at a location: of its latest version, and of ``version`` if it can still be read.

    They differ where a table was replaced in its own log (``CREATE OR REPLACE``).
    """
    store = open_store(table_uri, storage_options)
    ids = {load_snapshot(store).metadata.id}
    with suppress(VersionNotFoundError):
        ids.add(load_snapshot(store, version).metadata.id)
    return ids
