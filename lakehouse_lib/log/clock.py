"""This process's clock, and whether it may say what is old enough to be deleted.

How old an object is, the store's clock tells. So what this process takes for now is held against the time that the
store gives to an object that was put just then. A clock that is behind deletes less; one that is ahead would delete
what is within its retention.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta

from lakehouse_lib.errors import RetentionError, StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.store.base import ObjectMeta, ObjectStore

#: How far ahead of the store's a clock may be that something is deleted by. Clocks that a time server keeps differ by
#: less than a second, retentions are counted in hours at least, and some stores tell whole seconds only.
MOST_AHEAD = timedelta(minutes=10)


def now() -> int:
    """This process's clock, ms since the epoch. Everything here that decides by the time reads it so."""
    return time.time_ns() // 1_000_000


def check(store: ObjectStore, local_time: int, stored: int) -> None:
    """Refuse to delete by a clock that is ahead.

    Args:
        local_time: what this process's clock said, ms since the epoch.
        stored: the store's time of an object that was put after that.

    Raises:
        RetentionError: the clock was ahead by more than ``MOST_AHEAD``.
    """
    if timedelta(milliseconds=local_time - stored) > MOST_AHEAD:
        raise RetentionError(
            f"this machine's clock said {_text(local_time)}, and the store's {_text(stored)} after that: by a clock "
            "that is ahead files within their retention would be deleted",
            table=store.root,
            hint="Set this machine's clock (or the store's, if that one is wrong), and run it again",
        )


def check_by_commit(store: ObjectStore, local_time: int, version: int) -> None:
    """``check`` by a commit that was put after ``local_time``, at the cost of a look at it."""
    _check_by(store, local_time, file_names.commit(version), store.head(file_names.commit(version)))


def check_by_probe(store: ObjectStore) -> int:
    """``check`` by an object that is put for it and deleted. What this process's clock said, ms since the epoch.

    Raises:
        RetentionError: as ``check``.
        StoreError: the store failed, or the object was deleted by another process.
    """
    # The name of what a killed process leaves of a put: a cleanup takes it after a day.
    path = f"{file_names.LOG}/.clock.{uuid.uuid4().hex}.tmp"
    local_time = now()
    store.put(path, b"")
    try:
        probe = store.head(path)
    finally:
        store.delete_many([path])
    _check_by(store, local_time, path, probe)
    return local_time


def _check_by(store: ObjectStore, local_time: int, path: str, meta: ObjectMeta | None) -> None:
    if meta is None:
        raise StoreError(
            f"{path}, put just now to see the store's clock, is gone",
            table=store.root,
            hint="Run it again",
        )
    check(store, local_time, meta.modified)


def _text(moment: int) -> str:
    try:
        return datetime.fromtimestamp(moment / 1000, UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError):  # after the year 9999
        return f"{moment} ms since 1970"
