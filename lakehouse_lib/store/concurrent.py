"""Concurrent small requests to one store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lakehouse_lib.store.base import ObjectStore
from lakehouse_lib.threads import in_order

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_REQUESTS = 16


def at_once(store: ObjectStore, ask: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
    """The results of ``ask`` in the order of the items; the first error is raised.

    To a remote store 16 requests are made at a time. On a disk they are made one after the other: the work on the bytes
    holds the interpreter lock, and waiting for it costs more than a read.
    """
    return list(in_order(ask, items, _REQUESTS if store.is_remote else 0))
