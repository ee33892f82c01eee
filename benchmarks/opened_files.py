"""Count the files that a contestant opens. Linux (inotify) reports each open of a file in a folder."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection
from pathlib import Path

_OPEN, _OVERFLOW = 0x20, 0x4000  # IN_OPEN and IN_Q_OVERFLOW of inotify(7)
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


class OpenedFiles:
    """The names of the files in a folder that any process opens while the block runs, without its subfolders.

    Args:
        names: only these files count.
    """

    def __init__(self, folder: Path, names: Collection[str]) -> None:
        self.names: set[str] = set()
        self._folder, self._counted = folder, frozenset(names)

    def __enter__(self) -> OpenedFiles:
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0 or libc.inotify_add_watch(self._queue, os.fsencode(self._folder), _OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot watch", str(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            while True:
                self._read(os.read(self._queue, 1 << 20))
        except BlockingIOError:  # no event is left
            pass
        finally:
            os.close(self._queue)

    def _read(self, events: bytes) -> None:
        start = 0
        while start < len(events):
            _, mask, _, length = _EVENT.unpack_from(events, start)
            start += _EVENT.size
            if mask & _OVERFLOW:
                raise OSError(f"inotify lost events of {self._folder}; expected fewer opens of files")
            name = os.fsdecode(events[start : start + length].rstrip(b"\0"))
            start += length
            if name in self._counted:
                self.names.add(name)
