"""``_last_checkpoint``: a hint where to start listing. It may be missing, stale, torn or wrong; never an error."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log import names
from lakehouse_lib.store.base import ObjectStore

_ATTEMPTS = 10


@dataclass(frozen=True)
class LastCheckpoint:
    """``size`` counts actions; ``size_in_bytes`` is the checkpoint's."""

    version: int
    size: int
    size_in_bytes: int
    num_of_add_files: int


def read_hint(store: ObjectStore) -> int | None:
    """The version the hint names, or None when there is none that can be read."""
    try:
        return _version(store.read(names.LAST_CHECKPOINT))
    except StoreError:
        return None


def write_hint(store: ObjectStore, hint: LastCheckpoint) -> None:
    """Point to a newer checkpoint; a hint that is already there for this version or a later one stays."""
    body = json.dumps(
        {
            "version": hint.version,
            "size": hint.size,
            "sizeInBytes": hint.size_in_bytes,
            "numOfAddFiles": hint.num_of_add_files,
        }
    ).encode()
    for _ in range(_ATTEMPTS):
        meta = store.head(names.LAST_CHECKPOINT)
        current = store.read(names.LAST_CHECKPOINT) if meta is not None else None
        known = _version(current) if current is not None else None
        if known is not None and known >= hint.version:
            return
        if store.put_if_match(names.LAST_CHECKPOINT, body, current):
            return


def _version(data: bytes) -> int | None:
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 0 else None
