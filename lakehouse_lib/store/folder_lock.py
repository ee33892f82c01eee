"""The lock of a folder of the local file system. Only one process can hold it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lakehouse_lib.errors import StoreError

_FILE = ".lock"
_PATIENCE_SECONDS = 10.0
_WAIT_SECONDS = 0.005


@contextlib.contextmanager
def folder_lock(folder: Path, *, table: str) -> Iterator[None]:
    """Hold the lock of a folder; other processes wait for it. The kernel releases it if this process dies.

    Args:
        table: the table's location, for errors.

    Raises:
        StoreError: another process has kept the lock for ten seconds.
    """
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            is_ours = _lock(lock)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            # NFS locks only files that are open for writing (flock(2)), and a folder cannot be opened for writing.
            file = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o666)
            os.close(lock)
            lock = file
            is_ours = _lock(lock)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_ours:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"another process has kept {folder} locked for {_PATIENCE_SECONDS:g} s",
                    table=table,
                    hint="Find the process that holds it (lslocks); a stopped process keeps its locks",
                )
            time.sleep(_WAIT_SECONDS)
            is_ours = _lock(lock)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # ``close`` does not release it if a forked process has the file open, too
    finally:
        os.close(lock)


def _lock(handle: int) -> bool:
    """Take a file's lock; False if another process holds it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
