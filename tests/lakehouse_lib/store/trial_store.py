"""A store that the library does not know: objects are files of a folder, and locations are ``trial://shelf/table``.

Storage options: ``folder``, the folder of the shelves; ``trial_key``, a secret; ``renames``, whether Spark's own writer
may write to it; ``allowed_roots``, locations separated by ``|``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.errors import InvalidArgumentError, ObjectNotFoundError, PathOutsideTableError, StoreError
from lakehouse_lib.store import ObjectMeta, PathLimits, SparkAccess
from lakehouse_lib.store.schemes import StoreKind, register
from lakehouse_lib.store.uris import parse

_OPTIONS = ("folder", "trial_key", "renames", "allowed_roots")


class TrialStore:
    """A store whose objects are files of a folder.

    Args:
        location: ``trial://shelf/table``.
        options: storage options.
    """

    is_remote = True
    list_calls = 0
    schemes = ("trial", "trials")
    limits = PathLimits(path=2048, taken=128, noun="label")

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self.root = f"trial://{'/'.join(parse(location)[1:]).replace('//', '/')}".rstrip("/")
        self.allowed_roots = tuple(root for root in options.get("allowed_roots", "").split("|") if root)
        self._options = dict(options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrialStore) and other.root == self.root and other._options == self._options

    def __hash__(self) -> int:
        return hash(self.root)

    def open_location(self, location: str) -> TrialStore:
        return TrialStore(location, {**self._options, "allowed_roots": ""})

    def read(self, path: str) -> bytes:
        with self._errors(path):
            return self._readable(path).read_bytes()

    def put(self, path: str, data: bytes) -> None:
        with self._errors(path):
            self._put_aside(path, data).replace(self._own(path))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._errors(path):
            aside = self._put_aside(path, data)
            try:
                os.link(aside, self._own(path))
            except FileExistsError:
                return False
            finally:
                aside.unlink()
            return True

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        lock = f"{path}.{'absent' if expected is None else uuid.uuid5(uuid.NAMESPACE_OID, expected.hex())}.lock"
        while not self.put_if_absent(lock, b""):
            pass
        try:
            current = self.read(path) if self.head(path) else None
            if current != expected:
                return False
            self.put(path, data)
            return True
        finally:
            self.delete_many([lock])

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        place = self._own(folder) if folder else self._place(self.root)
        children = place.iterdir() if place.is_dir() else ()
        for path in sorted(children, key=lambda path: path.name):
            if path.is_file() and path.name >= start and not path.name.endswith((".aside", ".lock")):
                yield from self._metas(path)

    def folders(self, folder: str = "") -> list[str]:
        place = self._own(folder) if folder else self._place(self.root)
        return sorted(path.name for path in place.iterdir() if path.is_dir()) if place.is_dir() else []

    def walk(self, folder: str = "", after: str = "") -> Iterator[ObjectMeta]:
        place = self._own(folder) if folder else self._place(self.root)
        paths = place.rglob("*") if place.is_dir() else ()
        files = (path for path in paths if path.is_file() and not path.name.endswith((".aside", ".lock")))
        metas = (meta for path in files for meta in self._metas(path) if meta.path > after)
        yield from sorted(metas, key=lambda meta: meta.path)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._own(path).unlink(missing_ok=True)

    def head(self, path: str) -> ObjectMeta | None:
        place = self._readable(path)
        if not place.is_file():
            return None
        status = place.stat()
        return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000, str(status.st_ino))

    def sync(self, paths: Iterable[str]) -> None:
        pass

    def read_range(self, path: str, start: int, length: int, tag: str) -> bytes | None:
        meta = self.head(path)
        return self.read(path)[start : start + length] if meta is not None and meta.tag == tag else None

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def open_output(self, path: str) -> pa.NativeFile:
        place = self._own(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(place), "wb")

    def explain(self, error: OSError) -> str | None:
        return "Ask the keeper of the shelf"

    def spark_access(self, location: str) -> SparkAccess:
        shelf = location.split("/")[2]
        key = {f"fs.trial.shelf.{shelf}.key": self._options.get("trial_key", "")}
        return SparkAccess(f"file:{self._place(location)}", key, renames=self._options.get("renames") == "true")

    def make_root(self) -> None:
        self._place(self.root).mkdir(parents=True, exist_ok=True)

    def _place(self, location: str) -> Path:
        return Path(self._options["folder"], location.removeprefix("trial://"))

    def _own(self, path: str) -> Path:
        if path.startswith(("/", "trial://")) or ".." in path.split("/"):
            raise PathOutsideTableError(f"the path {path!r} leaves the table", table=self.root)
        return self._place(self.root) / path

    def _readable(self, path: str) -> Path:
        allowed = any(path.startswith(f"{root}/") for root in self.allowed_roots) and ".." not in path.split("/")
        return self._place(path) if allowed else self._own(path)

    def _put_aside(self, path: str, data: bytes) -> Path:
        place = self._own(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f"{uuid.uuid4()}.aside")
        aside.write_bytes(data)
        return aside

    def _metas(self, place: Path) -> Iterator[ObjectMeta]:
        meta = self.head(str(place.relative_to(self._place(self.root))))
        if meta is not None:
            yield meta

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"{path} is missing", table=self.root) from error
        except OSError as error:
            raise StoreError(f"{path}: {error}", table=self.root) from error


def open_trial(location: str, options: Mapping[str, str]) -> TrialStore:
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown:
        raise InvalidArgumentError(f"storage options {unknown}", hint=f"Known are {_OPTIONS}")
    return TrialStore(location, options)


def option_of(name: str) -> str | None:
    return name if name in _OPTIONS else None


TRIAL = StoreKind(("trial",), open_trial, option_of, frozenset({"trial_key"}), "|")
register(TRIAL)
