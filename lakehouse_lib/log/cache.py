"""A cache of log objects that this process has read, so that opening a table again reads only new objects.

Log objects never change, but a table may be deleted and another table created at its location. So the key of an entry
has the store, the path, the size, the modification time and the tag. An object without a tag is not cached while it is
so young that a rewrite could have the same modification time.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse_lib.log import clock
from lakehouse_lib.store import ObjectMeta, ObjectStore

#: The limit for the bytes of all entries. Above it, the least recently used entries are dropped. Open tables keep the
#: values that they use.
BOUND = 256 << 20

#: Bytes that each entry takes in addition to its ``nbytes``. Most of them are Arrow objects, even for one small commit.
ENTRY = 32 << 10

#: How many growing entries one call measures. It begins with the entry that was measured the longest time ago.
_MEASURED_AT_ONCE = 4

#: The coarsest resolution of a file system's modification times, in milliseconds.
_COARSEST_TIME_MS = 2_000

_Value = TypeVar("_Value")
_Key = tuple[Any, ...]


@dataclass(slots=True)
class _Entry:
    value: Any
    nbytes: Callable[[Any], int]
    size: int = 0

    def measure(self) -> int:
        """Bytes by which the value has grown since the last measurement."""
        before, self.size = self.size, ENTRY + self.nbytes(self.value)
        return self.size - before


class LogCache:
    """A cache of values, by the objects that they were read from. Threads may share it.

    The least recently used values are dropped first. The time of a call does not depend on the number of entries.

    Args:
        bound: the limit for the bytes of all values.
    """

    def __init__(self, bound: int = BOUND) -> None:
        self.bound = bound
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make the cache of a forked child empty and its lock free.

        Another thread of the parent may have held the lock, in the middle of a change.
        """
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._growing: OrderedDict[_Key, _Entry] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()

    def get(
        self,
        store: ObjectStore,
        objects: Sequence[ObjectMeta],
        read: Callable[[], _Value],
        nbytes: Callable[[_Value], int],
        *,
        grows: bool = False,
    ) -> _Value:
        """The value of these objects: from the cache, or else from ``read``.

        Args:
            read: reads the objects and returns their value.
            nbytes: returns the value's bytes in memory, without the tens of kilobytes that every entry takes.
            grows: whether the value's size may grow while it is used.
        """
        key = _key(store, objects)
        with self._lock:
            entry = self._look_up(key)
        if entry is None:
            value = read()
            youngest = max((meta.modified for meta in objects if not meta.tag), default=0)
            if clock.now() - youngest <= _COARSEST_TIME_MS:
                return value
            with self._lock:
                entry = self._look_up(key)  # another thread may have read the objects meanwhile: share its columns
                if entry is None:
                    entry = self._entries[key] = _Entry(value, nbytes)
                    self._nbytes += entry.measure()
                    if grows:
                        self._growing[key] = entry
                self._measure()
        elif grows:
            with self._lock:
                self._measure()
        result: _Value = entry.value
        return result

    def forget(self, store: ObjectStore, objects: Sequence[ObjectMeta]) -> None:
        """Drop these objects from the cache, so that they are read again."""
        with self._lock:
            self._drop(_key(store, objects))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._growing.clear()
            self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values, as of their last measurement."""
        with self._lock:
            return self._nbytes

    def _look_up(self, key: _Key) -> _Entry | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def _measure(self) -> None:
        for _ in range(min(len(self._growing), _MEASURED_AT_ONCE)):
            key, entry = self._growing.popitem(last=False)
            self._growing[key] = entry
            self._nbytes += entry.measure()
        while self._nbytes > self.bound:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        self._growing.pop(key, None)
        self._nbytes -= entry.size if entry is not None else 0


def _key(store: ObjectStore, objects: Sequence[ObjectMeta]) -> _Key:
    return (type(store), store, *((meta.path, meta.size, meta.modified, meta.tag) for meta in objects))


CACHE = LogCache()
os.register_at_fork(after_in_child=CACHE.begin_anew)
