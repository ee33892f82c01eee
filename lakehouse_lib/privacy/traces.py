"""The traces of an erasure in a table's log: the commits of its deletes, and how long the log keeps them."""

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
    """The traces of an erasure in the log of one table.

    Attributes:
        deleted: the number of deleted rows by version, for the request's commits that are in the log; None: the commit
            does not have the number, because it removed whole files without statistics.
        log_retention: the time for which the log keeps its entries; None: without limit.
    """

    deleted: Mapping[int, int | None]
    log_retention: timedelta | None


def find_traces(table_uri: str, request: str, since: int, *, storage_options: dict[str, str] | None = None) -> Traces:
    """Read the traces of an erasure request in a table's log, from the version ``since`` on."""
    snapshot = load_snapshot(open_store(table_uri, storage_options))
    deleted: dict[int, int | None] = {}
    for commit in list_commits(snapshot.store, since):
        with suppress(VersionNotFoundError, LogCorruptedError):
            info = read_commit(snapshot.store, commit.version, size=commit.size).info
            if info.get("operationParameters") == {"predicate": json.dumps([f"erasure {request}"])}:
                rows = info["operationMetrics"].get("numDeletedRows")
                deleted[commit.version] = None if rows is None else int(rows)
    return Traces(deleted, log_retention(snapshot.configuration, snapshot.store.root))


def table_ids(table_uri: str, version: int, *, storage_options: dict[str, str] | None = None) -> set[str]:
    """The ids of the table at a location: in its latest version, and in ``version`` if that can be read.

    The two differ after ``CREATE OR REPLACE TABLE``.
    """
    store = open_store(table_uri, storage_options)
    ids = {load_snapshot(store).metadata.id}
    with suppress(VersionNotFoundError):
        ids.add(load_snapshot(store, version).metadata.id)
    return ids
