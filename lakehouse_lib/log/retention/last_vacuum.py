"""``_last_vacuum_info``: up to which version a vacuum has deleted the removed files, as delta-spark writes it.

The file is a hint. If it is missing or cannot be read, the next plan of a vacuum reads more commits.
"""

from __future__ import annotations

import json

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import ObjectStore

_PATH = f"{file_names.LOG}/_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"


def read_last_vacuumed(store: ObjectStore, latest: int) -> int | None:
    """The last version whose removed files a vacuum has deleted; None: unknown.

    Args:
        latest: the latest version. A greater number was written for an earlier table in this folder, and is ignored.
    """
    try:
        body = json.loads(store.read(_PATH))
    except (StoreError, ValueError):
        return None
    version = body.get(_VERSION) if isinstance(body, dict) else None
    return version if type(version) is int and 0 <= version <= latest else None


def write_last_vacuumed(store: ObjectStore, version: int) -> None:
    """Write that the removed files of all commits up to ``version`` are deleted."""
    store.put(_PATH, json.dumps({_VERSION: version}, separators=(",", ":")).encode() + b"\n")


def last_vacuum_time(store: ObjectStore) -> int | None:
    """When a vacuum last wrote the file, by the store's clock in ms since the epoch; None: unknown."""
    meta = store.head(_PATH)
    return None if meta is None else meta.modified
