"""Objects of logs that were read in this process, so that opening a table again reads only what is new.

The log's objects never change, but a table may be deleted and another one put in its place. An entry is therefore
known by the store, the path, the size and the modification time; and an object so young that a rewrite could have
left its time the same is not kept at all.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lakehouse_lib.store.base import ObjectMeta, ObjectStore

#: Bytes of columns that tables nobody holds open any more may keep.
BOUND = 256 << 20

#: File systems keep times in steps of up to this many milliseconds.
_STEP_OF_TIME = 2_000

_Value = TypeVar("_Value")
_Key = tuple[Any, ...]


class LogCache:
    """Values by the objects they were read from; the least recently used go first. Safe among threads."""

    def __init__(self, bound: int = BOUND) -> None:
        self.bound = bound
        self._entries: OrderedDict[_Key, tuple[Any, Callable[[], int]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self,
        store: ObjectStore,
        objects: Sequence[ObjectMeta],
        read: Callable[[], _Value],
        nbytes: Callable[[_Value], int],
    ) -> _Value:
        """What ``read`` makes of these objects, now or earlier.

        Args:
            nbytes: the value's bytes in memory, which may grow while it is used.
        """
        key = (type(store), store.root, *((one.path, one.size, one.modified) for one in objects))
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                value: _Value = self._entries[key][0]
                self._trim()  # what has grown since
                return value
        value = read()
        youngest = max((one.modified for one in objects), default=0)
        if time.time() * 1000 - youngest > _STEP_OF_TIME:
            with self._lock:
                self._entries[key] = (value, lambda: nbytes(value))
                self._trim()
        return value

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(size() for _, size in self._entries.values())

    def _trim(self) -> None:
        sizes = {key: size() for key, (_, size) in self._entries.items()}
        total = sum(sizes.values())
        for key, size in sizes.items():
            if total <= self.bound:
                return
            del self._entries[key]
            total -= size


CACHE = LogCache()
