"""``_last_vacuum_info``: up to which version a vacuum has deleted the removed files, as delta-spark writes it.

The file is a hint. If it is missing or cannot be read, the next plan of a vacuum reads more commits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import ObjectStore

_PATH = f"{file_names.LOG}/_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_VISITED = "lakehouseLatestVisitedVersion"  # delta-spark ignores it


@dataclass(frozen=True)
class LastVacuum:
    """Which removed files vacuums have deleted.

    Attributes:
        version: the removed files of all commits up to this version are deleted; -1: of no commit.
        visited: the same, except for files that pins, shallow clones or other kept versions needed then.
    """

    version: int = -1
    visited: int = -1


def read_last_vacuum(store: ObjectStore, latest: int) -> LastVacuum:
    """The hint of the last vacuum.

    Args:
        latest: the latest version. A greater number was written for an earlier table in this folder, and is ignored.
    """
    try:
        body = json.loads(store.read(_PATH))
    except (StoreError, ValueError):
        return LastVacuum()
    version, visited = (_version_in(body, name, latest) for name in (_VERSION, _VISITED))
    return LastVacuum(version, max(version, visited))


def write_last_vacuum(store: ObjectStore, last: LastVacuum) -> None:
    """Write the hint, for this library and for delta-spark."""
    body = {_VERSION: last.version} if last.version >= 0 else {}
    if last.visited > last.version:
        body[_VISITED] = last.visited
    store.put(_PATH, json.dumps(body, separators=(",", ":")).encode() + b"\n")


def last_vacuum_time(store: ObjectStore) -> int | None:
    """When a vacuum last wrote the file, by the store's clock in ms since the epoch; None: unknown."""
    meta = store.head(_PATH)
    return None if meta is None else meta.modified


def _version_in(body: object, name: str, latest: int) -> int:
    version = body.get(name) if isinstance(body, dict) else None
    return version if type(version) is int and 0 <= version <= latest else -1
