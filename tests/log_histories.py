"""Logs with a history: one version a day, checkpoints of every kind, compactions and checksums."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lakehouse_lib.errors import DeltaError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.retention.cleanup import clean_up
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests import checkpoint_files as checkpoints
from tests.log_builder import METADATA, PROTOCOL, SCHEMA, add, lines, remove

DAY = 86_400_000
#: The time of version 0: 01:00 UTC of some day, ms since the epoch.
BEGINNING = 1_700_006_400_000 - 1_700_006_400_000 % DAY + 3_600_000

WEEK = {"delta.logRetentionDuration": "interval 7 days"}

NOT_THERE = VersionNotFoundError

KINDS = ("classic", "parts", "json", "parquet", "classic with sidecars")


class PastLog:
    """A table whose version ``v`` was committed ``v`` days after ``BEGINNING``, with one new file in each version.

    Every fourth version also removes a file, and every third version has a txn action.
    """

    def __init__(self, root: Path, *, configuration: dict[str, str] | None = None, size: int = 10) -> None:
        self.root = root
        self.store = LocalStore(str(root), fsync=False)
        self.configuration = configuration or {}
        self.size = size  # size of each file in bytes
        self.live: list[list[str]] = []

    @property
    def latest(self) -> int:
        return len(self.live) - 1

    def commits(self, count: int, *, days: Sequence[float] | None = None) -> PastLog:
        for _ in range(count):
            version = len(self.live)
            actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": version}}]
            if version == 0:
                actions += self._head()
            now = [*(self.live[-1] if self.live else []), f"f{version}"]
            actions.append(add(f"f{version}", size=self.size))
            if version % 4 == 3:
                actions.append(remove(now.pop(0)))
            if version % 3 == 2:
                actions.append({"txn": {"appId": "a", "version": version}})
            self.live.append(now)
            self._put(file_names.commit(version), lines(*actions), days[version] if days else version)
        return self

    def checkpoint(self, version: int, kind: str) -> list[str]:
        """Write a checkpoint of one of KINDS; returns the paths, sidecars last."""
        files = [add(path, size=self.size) for path in self.live[version]]
        txns = [v for v in range(version + 1) if v % 3 == 2]
        head = [*self._head(), *([{"txn": {"appId": "a", "version": txns[-1]}}] if txns else [])]
        half = len(files) // 2
        if kind == "classic":
            paths = [checkpoints.put_classic(self.store, version, [*head, *files])]
        elif kind == "parts":
            paths = checkpoints.put_parts(self.store, version, [[*head, *files[:half]], files[half:] or head[:1]])
        else:
            refs = [checkpoints.put_sidecar(self.store, part) for part in (files[:half], files[half:]) if part]
            top = [*head, *refs]
            if kind == "classic with sidecars":
                paths = [checkpoints.put_classic(self.store, version, top)]
            else:
                paths = [checkpoints.put_v2(self.store, version, kind, top)]
            paths += [f"{file_names.SIDECARS}/{ref['sidecar']['path']}" for ref in refs]
        for path in paths:
            self.date(path, version)
        return paths

    def compaction(self, start: int, end: int) -> str:
        before = self.live[start - 1] if start else []
        gone = [path for path in (*before, *(f"f{v}" for v in range(start, end + 1))) if path not in self.live[end]]
        came = [f"f{v}" for v in range(start, end + 1) if f"f{v}" in self.live[end]]
        txns = [{"txn": {"appId": "a", "version": v}} for v in range(start, end + 1) if v % 3 == 2][-1:]
        head = self._head() if start == 0 else []
        actions = [*head, *txns, *(remove(path) for path in gone), *(add(path, size=self.size) for path in came)]
        path = checkpoints.put_compaction(self.store, start, end, actions)
        self.date(path, end)
        return path

    def checksum(self, version: int) -> str:
        return self._put(
            file_names.checksum(version), json.dumps({"numFiles": len(self.live[version])}).encode(), version
        )

    def date(self, path: str, day: float) -> None:
        seconds = (BEGINNING + day * DAY) / 1000
        os.utime(self.root / path, (seconds, seconds))

    def listing(self) -> list[str]:
        return sorted(
            meta.path for folder in (file_names.LOG, file_names.SIDECARS) for meta in self.store.list_from(folder)
        )

    def _head(self) -> list[dict[str, Any]]:
        return [{"protocol": PROTOCOL}, {"metaData": METADATA | {"configuration": self.configuration}}]

    def _put(self, path: str, data: bytes, day: float) -> str:
        self.store.put(path, data)
        self.date(path, day)
        return path


def at(day: float) -> int:
    """The time that many days after version 0, ms since the epoch."""
    return int(BEGINNING + day * DAY)


def state_at(store: LocalStore, version: int | None) -> tuple[Any, ...] | type[DeltaError]:
    """The state that a reader reads at a version, without the cache; the error's class if it cannot be read."""
    CACHE.clear()
    try:
        snapshot = load_snapshot(store, version)
        transactions = sorted(
            (transaction.app_id, transaction.version) for transaction in snapshot.transactions.values()
        )
        paths = sorted(snapshot.files["path"].to_pylist())
        return (snapshot.version, paths, transactions, snapshot.metadata, snapshot.protocol, snapshot.timestamp)
    except DeltaError as error:
        return type(error)


def all_seen(store: LocalStore, versions: Iterable[int]) -> dict[int, Any]:
    return {version: state_at(store, version) for version in versions}


def weekly(configuration: dict[str, str] | None = None) -> Metadata:
    """Metadata with a log retention of seven days, or with these properties."""
    return Metadata("t", SCHEMA, configuration=WEEK if configuration is None else configuration)


def clean(log: PastLog, day: float, **more: Any) -> list[str]:
    """Clean up at that day, with a retention of seven days."""
    metadata = weekly(more.pop("configuration", WEEK))
    return clean_up(log.store, metadata, more.pop("protocol", Protocol(1, 2)), now=at(day), **more)
