"""A landing folder in an object store. Its files are objects, which are read in ranges and not copied.

Each range is read on the condition that the object has the ETag of its fingerprint. So no reader sees bytes of two
contents if an object is replaced while it is read.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s, literal, strings
from lakehouse_lib.errors import LandingError, SourceRefusedError, StoreRefusedError
from lakehouse_lib.ingestion.landing.base import ETAG, LISTING, Fingerprint, SourceFile
from lakehouse_lib.ingestion.name_pattern import NamePattern
from lakehouse_lib.store import ObjectMeta, ObjectStore

_ROWS = 1 << 14
# The least number of bytes of a request: for a read that continues where the last one ended, and for any other read.
_AHEAD = 8 << 20
_APART = 64 << 10


@dataclass(frozen=True)
class LandingObjects:
    """A landing folder of an object store, and the pattern of its files' names."""

    store: ObjectStore
    pattern: NamePattern

    @property
    def location(self) -> str:
        return self.store.root

    @property
    def is_remote(self) -> bool:
        return True

    def files(self, after: str = "") -> Iterator[pa.Table]:
        objects, last = self.store.walk(self.pattern.folder, after), after
        while metas := list(islice(objects, _ROWS)):
            names = strings([meta.path for meta in metas])
            self._check_order(pa.concat_arrays([strings([last]), names]))
            last = metas[-1].path
            yield self._table(names, metas)

    def find(self, name: str) -> SourceFile | None:
        meta = self.store.head(name)
        return None if meta is None else SourceFile(name, meta.size, meta.modified, meta.tag)

    def fingerprint(self, file: SourceFile) -> Fingerprint | None:
        try:
            data = self.store.read_range(file.name, 0, 1, file.tag)
        except StoreRefusedError as error:
            raise SourceRefusedError(f"{file.name} cannot be read: {error.message}", hint=error.hint) from error
        return None if data is None else Fingerprint(file.name, file.size, file.modified, f"{ETAG}{file.tag}")

    def open(self, file: Fingerprint) -> pa.NativeFile:
        return pa.PythonFile(_Ranges(self.store, file), "r")

    def _table(self, names: Any, metas: list[ObjectMeta]) -> pa.Table:
        """The listing of the objects whose names match the pattern."""
        sizes, times = [meta.size for meta in metas], [meta.modified for meta in metas]
        columns = [names, int64s(sizes), int64s(times), strings([meta.tag for meta in metas])]
        listed = pa.Table.from_arrays(columns, schema=LISTING).filter(self.pattern.matches(names))
        names = listed["name"]
        self._refuse(names, pc.match_substring_regex(names, "^/|//"), "is not a path", "Rename or delete it")
        if self.pattern.text is None:
            hint = "Give a pattern, such as '**/*' for the files of all folders"
            self._refuse(names, pc.match_substring(names, "/"), "is in a folder; expected files only", hint)
        hint = "Use a store whose objects have ETags; without them a replaced object is not noticed"
        self._refuse(names, pc.equal(pc.binary_length(listed["tag"]), literal(0, pa.int32())), "has no ETag", hint)
        return listed

    def _refuse(self, names: Any, wrong: Any, why: str, hint: str) -> None:
        """Raise LandingError about the first name for which the mask ``wrong`` is true, if there is one."""
        first = pc.index(wrong, literal(True, pa.bool_())).as_py()
        if first >= 0:
            raise LandingError(f"the name {names[first].as_py()!r} of an object in {self.location} {why}", hint=hint)

    def _check_order(self, names: Any) -> None:
        if not pc.all(pc.less(names[:-1], names[1:])).as_py():
            raise LandingError(
                f"the store lists the objects of {self.location} in another order than that of their names",
                hint="Use a server that lists keys in the order of their UTF-8 bytes, as its protocol says",
            )


class _Ranges(io.RawIOBase):
    """An object as a file for random access that fails if the object is replaced."""

    def __init__(self, store: ObjectStore, file: Fingerprint) -> None:
        self._store, self._file = store, file
        self._position = 0
        self._start, self._buffer = 0, b""  # the bytes that were fetched last

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._file.size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._file.size - self._position)
        needed = left if size is None or size < 0 else min(size, left)
        pieces = []
        while needed:
            piece = self._piece(needed)
            pieces.append(piece)
            needed -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _piece(self, needed: int) -> bytes:
        offset = self._position - self._start
        if not 0 <= offset < len(self._buffer):
            follows = self._position == self._start + len(self._buffer)
            length = min(max(needed, _AHEAD if follows else _APART), self._file.size - self._position)
            data = self._store.read_range(self._file.name, self._position, length, self._file.tag)
            if data is None or len(data) != length:
                raise OSError(errno.ESTALE, "the object was replaced or deleted while it was read", self._file.name)
            self._start, self._buffer, offset = self._position, data, 0
        piece = self._buffer[offset : offset + needed]
        self._position += len(piece)
        return piece
