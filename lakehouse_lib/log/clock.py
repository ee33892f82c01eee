"""The clock of this process, and the check that it is not ahead of the store's clock when files are deleted by age.

The age of an object comes from the store's clock. So this process's time is compared with the modification time of an
object that was just put. If this process's clock is behind, fewer files are deleted. If it is ahead, files within their
retention would be deleted.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta

from lakehouse_lib.errors import RetentionError, StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import ObjectMeta, ObjectStore

#: How far this clock may be ahead of the store's before a deletion is refused. Clocks that follow a time server differ
#: by less than a second. Retentions are hours at least, and some stores have a resolution of seconds.
MOST_AHEAD = timedelta(minutes=10)


def now() -> int:
    """The time of this process's clock, ms since the epoch. All decisions by time in this library use it."""
    return time.time_ns() // 1_000_000


def check(store: ObjectStore, local_time: int, stored: int) -> None:
    """Refuse a deletion if this process's clock is ahead of the store's.

    Args:
        local_time: the time of this process's clock, ms since the epoch.
        stored: the modification time, by the store's clock, of an object that was put after ``local_time``.

    Raises:
        RetentionError: the clock is ahead by more than ``MOST_AHEAD``.
    """
    if timedelta(milliseconds=local_time - stored) > MOST_AHEAD:
        raise RetentionError(
            f"this machine's clock was at {_text(local_time)} when the store's was at {_text(stored)}, so files within "
            "their retention would be deleted",
            table=store.root,
            hint="Set this machine's clock, or the store's if that is wrong, and run it again",
        )


def check_by_commit(store: ObjectStore, local_time: int, version: int) -> None:
    """Run ``check`` with the commit file of ``version``, which was put after ``local_time``; takes one request.

    Raises:
        RetentionError: as ``check``.
        StoreError: the store failed, or the commit file does not exist.
    """
    _check_by(store, local_time, file_names.commit(version), store.head(file_names.commit(version)))


def check_by_probe(store: ObjectStore) -> int:
    """Put an object, run ``check`` with its time, and delete it.

    Returns:
        the local time of the check, ms since the epoch.

    Raises:
        RetentionError: as ``check``.
        StoreError: the store failed, or another process deleted the object.
    """
    # It has the name of a temporary file, so that a cleanup deletes it after a day if this process is killed.
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
            f"{path} was just put to read the store's clock, and does not exist",
            table=store.root,
            hint="Run it again",
        )
    check(store, local_time, meta.modified)


def _text(moment: int) -> str:
    try:
        return datetime.fromtimestamp(moment / 1000, UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError):  # after the year 9999
        return f"{moment} ms since 1970"
