"""Temporary folders of the engines. When a process creates one, it deletes the folders of killed processes.

The owner of a folder holds a lock on a file in it. The kernel releases the lock when the process ends, so a folder
with a free lock has no owner. A process id would not show this, because another process may have got the same id.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakehouse_lib.errors import StoreError

_PREFIX = "lakehouse-"
_LOCK = ".owner"


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """An empty folder that only this user can read; it is deleted with its content when the block ends.

    Folders without an owner in the same parent are deleted first.

    Args:
        parent: the folder in which it is created; None: the system's folder for temporary files.

    Raises:
        StoreError: the folder cannot be created.
    """
    try:
        base = Path(tempfile.gettempdir() if parent is None else parent)
        sweep(base)
        # The name is hidden until the lock is held, so that no other process deletes it as a folder without an owner.
        hidden = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
        lock = os.open(hidden / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"a scratch folder cannot be created: {error}",
            hint="Set TMPDIR to a folder in which this user can create files"
            if parent is None
            else f"Make {parent} a folder in which this user can create files",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))
        try:
            yield str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def sweep(base: Path) -> None:
    """Delete this user's scratch folders in ``base`` that have no owner. Links are not followed."""
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        _delete_without_owner(Path(entry.path))


def _delete_without_owner(folder: Path) -> None:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: the folder has an owner
        shutil.rmtree(folder, ignore_errors=True)
