"""Many small requests to one store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lakehouse_lib.store.base import ObjectStore

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_REQUESTS = 16


def at_once(store: ObjectStore, ask: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
    """The answers, in the order of the items; the first error is raised.

    Where the store is far, 16 requests are made at a time. On a disk they are made one after the other: what is done
    with the bytes holds the interpreter, and threads that wait for it cost more than a read does.
    """
    if not store.is_far or len(items) < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(min(_REQUESTS, len(items))) as pool:
        return list(pool.map(ask, items))
