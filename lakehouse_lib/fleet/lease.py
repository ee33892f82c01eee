"""A lease: only one process maintains a table at a time.

The leases of a table have rising numbers. Each lease is one object that is put if absent, so exactly one process gets a
number. The holder renews its lease while it works. The lease of a killed process ends a few minutes later.

A lease avoids wasted work only. Without it, two processes are still safe, because each verb checks for conflicts.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, StoreError
from lakehouse_lib.log import clock
from lakehouse_lib.store import ObjectStore

_FOLDER = "leases"
_DIGITS = 12
#: The newest leases of a table that are not deleted.
_LEASES = 3


@contextmanager
def lease(records: ObjectStore, table: str, *, seconds: float = 600) -> Iterator[None]:
    """Hold the lease of a table in a block.

    Args:
        records: the store of the platform's own tables.
        table: the table's location.
        seconds: the time after which the lease of a killed process ends. A lease is renewed three times in this time.
            The clocks of the processes should differ by much less.

    Raises:
        InvalidArgumentError: another process holds it (``DELTA_MAINTENANCE_IN_PROGRESS``).
    """
    holder = uuid.uuid4().hex
    path = _take(records, table, holder, seconds)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(seconds / 3):
            with suppress(DeltaError):  # tried again; without success the lease ends by itself
                records.put(path, _body(table, holder, seconds))

    thread = threading.Thread(target=renew, name=f"lease of {table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with suppress(DeltaError):  # the lease ends by itself
            records.put(path, _body(table, holder, 0))


def _take(store: ObjectStore, table: str, holder: str, seconds: float) -> str:
    folder = f"{_FOLDER}/{hashlib.sha256(table.encode()).hexdigest()[:32]}"
    names = [meta.path.rsplit("/", 1)[-1] for meta in store.list_from(folder)]
    numbers = sorted(int(name[:_DIGITS]) for name in names if name[:_DIGITS].isdecimal() and name.endswith(".json"))
    if numbers and _until(store, _path(folder, numbers[-1])) > clock.now():
        raise _in_progress(table)
    path = _path(folder, numbers[-1] + 1 if numbers else 0)
    body = _body(table, holder, seconds)
    # After a lost answer the store may say that the object existed, although this call created it.
    if not store.put_if_absent(path, body) and store.read(path) != body:
        raise _in_progress(table)
    with suppress(DeltaError):
        store.delete_many([_path(folder, number) for number in numbers[:-_LEASES]])
    return path


def _body(table: str, holder: str, seconds: float) -> bytes:
    until = clock.now() + int(seconds * 1000) if seconds else 0
    return json.dumps({"table": table, "holder": holder, "until": until}).encode()


def _until(store: ObjectStore, path: str) -> int:
    try:
        until = json.loads(store.read(path)).get("until")
    except (StoreError, ValueError, AttributeError):
        return 0
    return until if type(until) is int else 0


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:0{_DIGITS}d}.json"


def _in_progress(table: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "another maintenance run works on the table",
        table=table,
        hint="Wait until it has finished; the lease of a killed run ends after ten minutes",
        code="DELTA_MAINTENANCE_IN_PROGRESS",
    )
