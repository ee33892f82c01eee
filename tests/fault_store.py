"""A local store with faults at chosen calls: another writer, a cleanup, a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lakehouse_lib.errors import StoreError, StoreRefusedError
from lakehouse_lib.store import LocalStore, ObjectMeta

#: An event before or after a call. Its argument is the path of the call: the object, the listed folder, or the first
#: deleted object.
Event = Callable[[str], object]

#: A replacement of a method: called with the method and the arguments of the call, returns the answer.
StandIn = Callable[..., Any]


class FaultStore(LocalStore):
    """A local store with events before or after its calls, or with replaced methods.

    Args:
        before: method name -> event before the call; if it raises, the call does not happen.
        after: method name -> event after the call; if it raises, the answer is lost.
        instead: method name -> replacement.

    Attributes:
        calls: how often each method was called.
    """

    def __init__(
        self,
        root: object,
        *,
        before: dict[str, Event] | None = None,
        after: dict[str, Event] | None = None,
        instead: dict[str, StandIn] | None = None,
        fsync: bool = False,
    ) -> None:
        super().__init__(str(root), fsync=fsync)
        self._before, self._after, self._instead = before or {}, after or {}, instead or {}
        self.calls: Counter[str] = Counter()

    def read(self, path: str) -> bytes:
        return self._call("read", path, super().read, path)

    def put(self, path: str, data: bytes) -> None:
        self._call("put", path, super().put, path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._call("put_if_absent", path, super().put_if_absent, path, data)

    def head(self, path: str) -> ObjectMeta | None:
        return self._call("head", path, super().head, path)

    def open_input(self, path: str) -> Any:
        return self._call("open_input", path, super().open_input, path)

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        return self._call("list_from", folder, super().list_from, folder, start)

    def delete_many(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        if paths:
            self._call("delete_many", paths[0], super().delete_many, paths)

    def _call(self, name: str, path: str, method: Callable[..., Any], *arguments: Any) -> Any:
        self.calls[name] += 1
        if name in self._before:
            self._before[name](path)
        answer = self._instead[name](method, *arguments) if name in self._instead else method(*arguments)
        if name in self._after:
            answer = iter(list(answer)) if name == "list_from" else answer  # a listing is lazy
            self._after[name](path)
        return answer


def each(*events: Callable[[], object]) -> Event:
    """An event that runs each of these at one call, in order, and then nothing."""
    left = list(events)
    return lambda _: left.pop(0)() if left else None


def answers(*ways: str) -> StandIn:
    """A replacement whose first calls are answered in these ways, and later calls normally.

    Args:
        ways: "lost" (the call fails and has no effect), "unanswered" (it fails after its effect), or "refused".
    """
    left = list(ways)

    def stand_in(method: Callable[..., Any], *arguments: Any) -> Any:
        way = left.pop(0) if left else "as usual"
        if way == "refused":
            raise StoreRefusedError("no space")
        if way == "lost":
            raise StoreError("connection reset")
        answer = method(*arguments)
        if way == "unanswered":
            raise StoreError("connection reset")
        return answer

    return stand_in
