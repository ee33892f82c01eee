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
_CUTOFF = "lakehouseCutoff"  # delta-spark ignores it


@dataclass(frozen=True)
class LastVacuum:
    """What vacuums have deleted.

    Attributes:
        version: the removed files of all commits up to this version are deleted; -1: of no commit.
        cutoff: ms since the epoch; the files of all tombstones up to this time are deleted, except those that a pin, a
            shallow clone or another kept version needed; -1: unknown.
    """

    version: int = -1
    cutoff: int = -1


def read_last_vacuum(store: ObjectStore, latest: int) -> LastVacuum:
    """The hint of the last vacuum.

    Args:
        latest: the latest version. A hint with a greater version was written for an earlier table in this folder, and
            is ignored.
    """
    try:
        body = json.loads(store.read(_PATH))
    except (StoreError, ValueError):
        return LastVacuum()
    version, cutoff = (body.get(name) if isinstance(body, dict) else None for name in (_VERSION, _CUTOFF))
    version = version if type(version) is int and version >= 0 else -1
    if version > latest:
        return LastVacuum()
    return LastVacuum(version, cutoff if type(cutoff) is int and cutoff >= 0 else -1)


def write_last_vacuum(store: ObjectStore, last: LastVacuum) -> None:
    """Write the hint, for this library and for delta-spark."""
    body = {name: value for name, value in ((_VERSION, last.version), (_CUTOFF, last.cutoff)) if value >= 0}
    store.put(_PATH, json.dumps(body, separators=(",", ":")).encode() + b"\n")


def last_vacuum_time(store: ObjectStore) -> int | None:
    """When a vacuum last wrote the file, by the store's clock in ms since the epoch; None: unknown."""
    meta = store.head(_PATH)
    return None if meta is None else meta.modified
