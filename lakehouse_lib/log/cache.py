"""Objects of logs that were read in this process, so that opening a table again reads only what is new.

The log's objects never change, but a table may be deleted and another one put in its place. An entry is therefore
known by the store, the path, the size and the modification time; and an object so young that a rewrite could have
left its time the same is not kept at all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse_lib.log import clock
from lakehouse_lib.store.base import ObjectMeta, ObjectStore

#: Bytes that tables which are not open any more may keep.
BOUND = 256 << 20

#: What an entry takes beside the columns that it counts: the Arrow objects of a commit of one file, most of all.
ENTRY = 32 << 10

#: So many of the entries that may grow are measured at a time, those first that were not for the longest.
_MEASURED_AT_ONCE = 4

#: File systems keep times in steps of up to this many milliseconds.
_STEP_OF_TIME = 2_000

_Value = TypeVar("_Value")
_Key = tuple[Any, ...]


@dataclass(slots=True)
class _Entry:
    value: Any
    nbytes: Callable[[Any], int]
    size: int = 0

    def measure(self) -> int:
        """Bytes by which the value has grown since it was measured last."""
        before, self.size = self.size, ENTRY + self.nbytes(self.value)
        return self.size - before


class LogCache:
    """Values by the objects they were read from; the least recently used go first. Safe among threads.

    No call takes longer the more there is in it.
    """

    def __init__(self, bound: int = BOUND) -> None:
        self.bound = bound
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
        """The value that ``read`` makes of these objects, now or earlier.

        Args:
            nbytes: the value's bytes in memory, without the few tens of kilobytes that any entry takes.
            grows: whether they become more while the value is used.
        """
        key = _key(store, objects)
        with self._lock:
            entry = self._look_up(key)
        if entry is None:
            value = read()
            youngest = max((meta.modified for meta in objects if not meta.tag), default=0)
            if clock.now() - youngest <= _STEP_OF_TIME:
                return value
            with self._lock:
                entry = self._look_up(key)  # of another thread that was faster, to share its columns
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
        """Read these anew the next time."""
        with self._lock:
            self._drop(_key(store, objects))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._growing.clear()
            self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values, as they were measured last."""
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
