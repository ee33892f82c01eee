"""A store on a server without conditional puts, for a table that only one process writes (``single_writer=true``).

A put after a check that the object is missing does not exclude other processes. The user guarantees that only this
process writes. This module detects another writer if an object does not have the bytes that this process put.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse_lib.errors import ObjectNotFoundError, StoreRefusedError
from lakehouse_lib.store.s3.s3_store import S3Store
from lakehouse_lib.threads import ProcessLock

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_REMEMBERED = 256


@dataclass
class _OwnWrites:
    """The digests of the latest 256 objects that ``put_if_absent`` has created in a table, by path, the latest last."""

    lock: ProcessLock = field(default_factory=ProcessLock)
    digests: OrderedDict[str, bytes] = field(default_factory=OrderedDict)


_tables: dict[S3Store, _OwnWrites] = {}


class SingleWriterS3Store(S3Store):
    """An S3 store in which the threads of this process exclude each other; other processes must not write."""

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self._check(path, data)
        return data

    def open_input(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        # The bytes of an object that this process has put are compared, as by ``read``.
        return pa.BufferReader(self.read(path)) if path in self._own_writes.digests else super().open_input(path)

    def put(self, path: str, data: bytes) -> None:
        own_writes = self._own_writes
        with own_writes.lock:
            own_writes.digests.pop(path, None)  # the digest of the bytes that this put replaces
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        own_writes = self._own_writes
        with own_writes.lock:
            self._check_latest()
            if self.head(path) is not None:
                return False
            # Store the digest before the put: if its answer is lost, the object may be stored and then be overwritten.
            own_writes.digests[path] = _digest(data)
            own_writes.digests.move_to_end(path)
            while len(own_writes.digests) > _MOST_REMEMBERED:
                own_writes.digests.popitem(last=False)
            try:
                super().put(path, data)
            except StoreRefusedError:
                del own_writes.digests[path]
                raise
            self.read(path)
            return True

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        with self._own_writes.lock:
            try:
                current = S3Store.read(self, path)
            except ObjectNotFoundError:
                current = None
            if current != expected:
                return False
            self.put(path, data)
            return True

    @property
    def _own_writes(self) -> _OwnWrites:
        return _tables.setdefault(self, _OwnWrites())

    def _check_latest(self) -> None:
        """Check that the latest commit of this process was not overwritten. Called before the next commit."""
        digests = self._own_writes.digests
        # Only a commit file matters, because the next commit follows it. The latest put may be a checksum file.
        path = next((written_path for written_path in reversed(digests) if written_path.endswith(".json")), None)
        if path is None:
            return
        try:
            self.read(path)
        except ObjectNotFoundError:  # it was cleaned up, or the table was deleted
            del digests[path]

    def _check(self, path: str, data: bytes) -> None:
        digest = self._own_writes.digests.get(path)
        if digest is not None and digest != _digest(data):
            raise StoreRefusedError(
                f"{path}, which this process has put, was overwritten by another writer: committed rows are lost",
                table=self.root,
                hint="single_writer=true is for tables that only one process writes: stop the other writers, compare "
                "the log (history()) with what was written, and write again what is missing; or use a server with "
                "conditional puts",
            )


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
