"""Concurrent small requests to one store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lakehouse_lib.store.base import ObjectStore
from lakehouse_lib.threads import map_in_threads

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_REQUESTS = 16


def map_requests(store: ObjectStore, ask: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
    """The results of ``ask`` in the order of the items. The first error is raised.

    A remote store gets 16 requests at a time. A local disk gets one request after the other: Python holds the
    interpreter lock while it parses the bytes, and a thread would wait longer for the lock than a read takes.
    """
    return list(map_in_threads(ask, items, _REQUESTS if store.is_remote else 0))


def map_requests_ahead(
    store: ObjectStore, ask: Callable[[_Item], _Answer], items: Sequence[_Item]
) -> Iterator[_Answer]:
    """As ``map_requests``, but at most 16 results wait for the caller, so that they do not fill the memory."""
    return map_in_threads(ask, items, _REQUESTS if store.is_remote else 0, ahead=_REQUESTS)
