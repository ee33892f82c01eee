"""A lease: only one maintenance run works on a table at a time.

The leases of a table have rising numbers. Each lease is one object that is put if absent, so exactly one process gets a
number. The holder renews its lease while it works. The lease of a killed process ends within ten minutes. A later try
of the same run ignores this lease.

A lease only avoids wasted work. Without a lease, two processes are still safe, because each verb checks for conflicts.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, ObjectNotFoundError
from lakehouse_lib.log import clock
from lakehouse_lib.store import ObjectStore

_FOLDER = "leases"
_DIGITS = 12
#: The number of older leases of a table that are not deleted.
_OLD_LEASES = 3


@contextmanager
def lease(records: ObjectStore, table: str, run: str, *, seconds: float = 600) -> Iterator[None]:
    """Hold the lease of a table in a block.

    Args:
        records: the store of the platform's own tables.
        table: the table's location.
        run: the id of the maintenance run. An existing lease of the same run belongs to a killed try, and is ignored.
        seconds: a lease ends this many seconds after its last renewal. The holder renews it after each third of this
            time. The clocks of the processes should differ by much less.

    Raises:
        InvalidArgumentError: another run holds the lease (``DELTA_MAINTENANCE_IN_PROGRESS``).
        StoreError: it is not known whether another run holds the lease.
    """
    path = _take(records, table, run, seconds)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(seconds / 3):
            with suppress(DeltaError):  # the next renewal tries again; otherwise the lease ends by itself
                records.put(path, _body(table, run, seconds))

    thread = threading.Thread(target=renew, name=f"lease of {table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with suppress(DeltaError):  # the lease ends by itself
            records.put(path, _body(table, run, 0))


def _take(store: ObjectStore, table: str, run: str, seconds: float) -> str:
    folder = f"{_FOLDER}/{hashlib.sha256(table.encode()).hexdigest()[:32]}"
    names = [meta.path.rsplit("/", 1)[-1] for meta in store.list_from(folder)]
    numbers = sorted(int(name[:_DIGITS]) for name in names if name[:_DIGITS].isdecimal() and name.endswith(".json"))
    if numbers and _until(store, _path(folder, numbers[-1]), run) > clock.now():
        raise _in_progress(table)
    path = _path(folder, numbers[-1] + 1 if numbers else 0)
    body = _body(table, run, seconds)
    # After a lost answer the store may say that the object existed, although this call created it.
    if not store.put_if_absent(path, body) and store.read(path) != body:
        raise _in_progress(table)
    with suppress(DeltaError):
        store.delete_many([_path(folder, number) for number in numbers[:-_OLD_LEASES]])
    return path


def _body(table: str, run: str, seconds: float) -> bytes:
    until = clock.now() + int(seconds * 1000) if seconds else 0
    return json.dumps({"table": table, "run": run, "process": uuid.uuid4().hex, "until": until}).encode()


def _until(store: ObjectStore, path: str, run: str) -> int:
    """The end of a lease, in ms since the epoch; 0: the lease belongs to this run, was deleted, or is not valid."""
    try:
        values = json.loads(store.read(path))
        until = 0 if values.get("run") == run else values.get("until")
    except (ObjectNotFoundError, ValueError, AttributeError):
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
