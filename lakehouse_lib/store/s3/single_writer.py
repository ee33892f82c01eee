"""A bucket whose server refuses no put, for a table that only one process ever writes (``single_writer=true``).

Looking first and putting then is not mutual exclusion. The user vouches that there is no other writer; this adds
that a second writer is detected, once an object of this process has other bytes than it put.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

from lakehouse_lib.errors import ObjectNotFoundError, StoreRefusedError
from lakehouse_lib.store.s3.s3_store import S3Store
from lakehouse_lib.threads import ProcessLock

_MOST_REMEMBERED = 256


@dataclass
class _OwnWrites:
    """What this process has put into a table, the latest last."""

    lock: ProcessLock = field(default_factory=ProcessLock)
    digests: OrderedDict[str, bytes] = field(default_factory=OrderedDict)


_tables: dict[S3Store, _OwnWrites] = {}


class SingleWriterS3Store(S3Store):
    """Threads of this process exclude each other; other processes must not write."""

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self._check(path, data)
        return data

    def put_if_absent(self, path: str, data: bytes) -> bool:
        own_writes = self._own_writes
        with own_writes.lock:
            self._check_latest()
            if self.head(path) is not None:
                return False
            # Before it is put: where the answer gets lost, it may be there all the same, and be overwritten by others.
            own_writes.digests[path] = _digest(data)
            own_writes.digests.move_to_end(path)
            while len(own_writes.digests) > _MOST_REMEMBERED:
                own_writes.digests.popitem(last=False)
            try:
                self.put(path, data)
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
        """Check that the commit which was put last is still there, before another one is built on it."""
        digests = self._own_writes.digests
        # Of all that was put it is the commit that others build on, and a checksum that comes last.
        path = next((written_path for written_path in reversed(digests) if written_path.endswith(".json")), None)
        if path is None:
            return
        try:
            self.read(path)
        except ObjectNotFoundError:  # cleaned up, or the table was deleted
            del digests[path]

    def _check(self, path: str, data: bytes) -> None:
        digest = self._own_writes.digests.get(path)
        if digest is not None and digest != _digest(data):
            raise StoreRefusedError(
                f"{path}, which this process has put, was overwritten by another writer: rows of ours are lost",
                table=self.root,
                hint="single_writer=true is for tables that one process alone writes: stop the other writers, look "
                "what the log has now (history()) and write again what is missing; or use a server with conditional "
                "puts",
            )


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
