"""A store in memory. The simulation executes, loses, repeats or delays each of its calls.

Each object is consistent, as on a local disk and in S3: every reader sees the last put. Listings may be stale.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lakehouse_lib.errors import ObjectNotFoundError, StoreError
from lakehouse_lib.store import ObjectMeta, PathLimits, SparkAccess
from tests.simulation.simulation import Call, Simulation

_Result = TypeVar("_Result")


class Stored(NamedTuple):
    data: bytes
    modified: float  # ms
    tag: str


class Bucket:
    """The stored objects for all actors; ``watch`` gets every change before any actor sees it."""

    def __init__(self, watch: Callable[[str, bytes | None], None]) -> None:
        self.objects: dict[str, Stored] = {}
        self.watch = watch
        self.gone: dict[str, tuple[Stored, float]] = {}  # deleted objects and their times

    def set(self, path: str, data: bytes | None, now: float) -> None:
        self.watch(path, data)
        before = self.objects.pop(path, None)
        if data is not None:
            self.objects[path] = Stored(data, now, str(zlib.crc32(data)))
        elif before is not None:
            self.gone[path] = (before, now)

    def tear(self, path: str) -> None:
        """Cut an object to half its bytes, without a call."""
        half = self.objects[path].data[: len(self.objects[path].data) // 2]
        self.objects[path] = Stored(half, self.objects[path].modified, str(zlib.crc32(half)))

    def listed(self, now: float, stale: float, some: int) -> list[ObjectMeta]:
        """The content of a listing, sorted by path."""
        objects = dict(self.objects)
        if stale:
            young = [path for path, stored in objects.items() if stored.modified > now - stale]
            ghosts = [path for path, (_, when) in self.gone.items() if when > now - stale and path not in objects]
            for path in young:
                if _chosen(path, some):
                    del objects[path]
            objects |= {path: self.gone[path][0] for path in ghosts if _chosen(path, some)}
        return [_meta(path, objects[path]) for path in sorted(objects)]


class SimulatedStore:
    """One actor's view of the bucket: a separate process, so it has separate caches.

    Attributes:
        trouble: whether a call has failed, or a listing was stale, since it was set to False.
    """

    allowed_roots: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("file",)
    limits = PathLimits(path=1024, taken=0)
    is_remote = True
    list_calls = 0

    def __init__(self, simulation: Simulation, bucket: Bucket, name: str) -> None:
        self.root = f"/simulated/{name}"
        self.simulation = simulation
        self.bucket = bucket
        self.trouble = False

    def open_location(self, location: str) -> SimulatedStore:
        raise AssertionError(f"{location}: no actor clones")

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self._stored(path).data)

    def head(self, path: str) -> ObjectMeta | None:
        def look() -> ObjectMeta | None:
            stored = self.bucket.objects.get(path)
            return None if stored is None else _meta(path, stored)

        return self._call("head", path, look)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def put(self, path: str, data: bytes) -> None:
        self._call("put", path, lambda: self._set(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        def put() -> bool:
            if path in self.bucket.objects:
                return False
            self._set(path, data)
            return True

        return self._call("put", path, put)

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        def put() -> bool:
            stored = self.bucket.objects.get(path)
            if (None if stored is None else stored.data) != expected:
                return False
            self._set(path, data)
            return True

        return self._call("put", path, put)

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{folder}/" if folder else ""
        for meta in self._listed(folder):
            name = meta.path[len(prefix) :]
            if meta.path.startswith(prefix) and "/" not in name and name >= start:
                yield meta

    def folders(self, folder: str = "") -> list[str]:
        prefix = f"{folder}/" if folder else ""
        paths = [meta.path[len(prefix) :] for meta in self._listed(folder) if meta.path.startswith(prefix)]
        return sorted({path.partition("/")[0] for path in paths if "/" in path})

    def walk(self, folder: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{folder}/" if folder else ""
        yield from (meta for meta in self._listed(folder) if meta.path.startswith(prefix))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._call("delete", path, lambda path=path: self._set(path, None))  # type: ignore[misc]

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing to do: memory has no durability."""

    def open_output(self, path: str) -> pa.NativeFile:
        raise AssertionError(f"{path}: actors put their data files")

    def explain(self, error: OSError) -> str | None:
        return None

    def spark_access(self, location: str) -> SparkAccess:
        raise AssertionError(f"{location}: no actor has Spark")

    def make_root(self) -> None:
        """Nothing to do: memory has no folders."""

    def meet(self, verb: str, act: Callable[[], None]) -> None:
        """Let an event happen to the whole table, as if it were one call."""
        self._call(verb, "", act)

    def _call(self, verb: str, path: str, act: Callable[[], _Result]) -> _Result:
        call = Call("", verb, path)
        fault_plan = self.simulation.pause(call)
        if fault_plan.answer == "result" and fault_plan.effect == 1:
            return act()
        result: _Result | None = None
        failure: StoreError | None = None
        for _ in range(fault_plan.effect):
            try:
                result, failure = act(), None
            except StoreError as error:
                failure = error
        if fault_plan.late:
            self.simulation.later(call, act)
        if fault_plan.answer == "crash":
            self.simulation.crash()
        if fault_plan.answer == "error":
            self.trouble = True
            raise StoreError(f"no answer to {verb} {path}", table=self.root)
        if failure is not None:
            raise failure
        return result  # type: ignore[return-value]

    def _listed(self, folder: str) -> list[ObjectMeta]:
        fault_plan = self.simulation.pause(Call("", "list", folder))
        if fault_plan.answer == "crash":
            self.simulation.crash()
        if fault_plan.answer == "error":
            self.trouble = True
            raise StoreError(f"no answer to list {folder}", table=self.root)
        self.trouble |= fault_plan.stale > 0
        return self.bucket.listed(self.simulation.now, fault_plan.stale, fault_plan.some)

    def _set(self, path: str, data: bytes | None) -> None:
        self.bucket.set(path, data, self.simulation.now)

    def _stored(self, path: str) -> Stored:
        if path not in self.bucket.objects:
            raise ObjectNotFoundError(f"{path} is missing", table=self.root)
        return self.bucket.objects[path]


def _meta(path: str, stored: Stored) -> ObjectMeta:
    return ObjectMeta(path, len(stored.data), int(stored.modified), stored.tag)


def _chosen(path: str, some: int) -> bool:
    return not some or bool(zlib.crc32(f"{some} {path}".encode()) & 1)
