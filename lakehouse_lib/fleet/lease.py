"""A lease: only one maintenance run of a fleet plans at a time.

Leases have rising numbers, and each is one object that is put if absent, so that exactly one process gets a number. A
lease ends when its holder ends it, or at its time: the lease of a killed process blocks nobody for long.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, StoreError
from lakehouse_lib.log import clock
from lakehouse_lib.store import ObjectStore, open_store

_FOLDER = "leases"
_DIGITS = 12
_LEASES = 10


@contextmanager
def lease(
    records: str, storage_options: Mapping[str, str] | None = None, *, seconds: float = 6 * 3600
) -> Iterator[None]:
    """Hold the lease of a fleet in a block.

    Args:
        records: the location of the platform's own tables.
        seconds: after this time the lease ends, even if the block has not.

    Raises:
        InvalidArgumentError: another process holds it (``DELTA_MAINTENANCE_IN_PROGRESS``).
    """
    store = open_store(records, dict(storage_options or {}))
    path = _take(store, seconds)
    try:
        yield
    finally:
        with suppress(DeltaError):  # it ends by itself
            store.put(path, json.dumps({"until": 0}).encode())


def _take(store: ObjectStore, seconds: float) -> str:
    body = json.dumps({"until": clock.now() + int(seconds * 1000), "id": uuid.uuid4().hex}).encode()
    names = [meta.path.rsplit("/", 1)[-1] for meta in store.list_from(_FOLDER)]
    numbers = sorted(int(name[:_DIGITS]) for name in names if name[:_DIGITS].isdecimal() and name.endswith(".json"))
    if numbers and _until(store, _path(numbers[-1])) > clock.now():
        raise _in_progress(store)
    path = _path(numbers[-1] + 1 if numbers else 0)
    # After a lost answer the store may say that the object existed, although this call created it.
    if not store.put_if_absent(path, body) and store.read(path) != body:
        raise _in_progress(store)
    with suppress(DeltaError):
        store.delete_many([_path(number) for number in numbers[:-_LEASES]])
    return path


def _until(store: ObjectStore, path: str) -> int:
    try:
        until = json.loads(store.read(path)).get("until")
    except (StoreError, ValueError, AttributeError):
        return 0
    return until if type(until) is int else 0


def _path(number: int) -> str:
    return f"{_FOLDER}/{number:0{_DIGITS}d}.json"


def _in_progress(store: ObjectStore) -> InvalidArgumentError:
    return InvalidArgumentError(
        "another maintenance run of this fleet is in progress",
        table=store.root,
        hint="Wait until it has finished; the lease of a killed run ends by itself",
        code="DELTA_MAINTENANCE_IN_PROGRESS",
    )
