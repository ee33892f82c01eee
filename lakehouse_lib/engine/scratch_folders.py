"""Temporary folders of the engines. The folder of a killed process is deleted when another process makes one.

A folder's owner holds a lock on a file in it. The kernel releases the lock however the process ends, so a folder whose
lock can be taken has no owner. A process id would not do: another process may have it by now.
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

_PREFIX = "lakehouse-"
_LOCK = ".owner"


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """An empty folder that only this user can read; deleted with its content when the block ends.

    Folders beside it whose owners are gone are deleted, too.

    Args:
        parent: the folder it is made in; None: where temporary files go.

    Raises:
        OSError: it cannot be made.
    """
    base = Path(tempfile.gettempdir() if parent is None else parent)
    sweep(base)
    # Under a hidden name until the lock is held, so that no other process takes it for one without an owner.
    hidden = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
    lock = os.open(hidden / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    """Delete the scratch folders in ``base`` that are this user's and whose owners are gone. No link is followed."""
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
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its owner lives
        shutil.rmtree(folder, ignore_errors=True)
