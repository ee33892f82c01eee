"""A local store at whose calls something else happens: another writer, a cleanup, a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lakehouse_lib.store import ObjectMeta
from lakehouse_lib.store.local import LocalStore

#: Called with the path of a call: the object's, the folder's of a listing, the first one's of a deletion.
Event = Callable[[str], object]


class FaultStore(LocalStore):
    """A local store whose calls are preceded or followed by events.

    Args:
        before: an event by the name of a method; when it raises, the call does not happen.
        after: an event by the name of a method; when it raises, the answer is lost.
    """

    def __init__(
        self,
        root: object,
        *,
        before: dict[str, Event] | None = None,
        after: dict[str, Event] | None = None,
        fsync: bool = False,
    ) -> None:
        super().__init__(str(root), fsync=fsync)
        self._before, self._after = before or {}, after or {}

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
        return iter(self._call("list_from", folder, lambda: list(super(FaultStore, self).list_from(folder, start))))

    def delete_many(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        if paths:
            self._call("delete_many", paths[0], super().delete_many, paths)

    def _call(self, name: str, path: str, method: Callable[..., Any], *arguments: Any) -> Any:
        if name in self._before:
            self._before[name](path)
        answer = method(*arguments)
        if name in self._after:
            self._after[name](path)
        return answer


def each(*events: Callable[[], object]) -> Event:
    """An event that is the first of these at the first call, the second at the next one, and then nothing."""
    left = list(events)
    return lambda _: left.pop(0)() if left else None
