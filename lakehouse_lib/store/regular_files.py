"""Open files of this machine's file system that someone may have replaced by something else.

An ordinary ``open`` of a FIFO waits until another process writes to it, which may be never. Here the path is opened
without waiting, and the open file, not the path, is checked: nothing can be swapped in between.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: The way out of every refusal here.
HINT = "Move it away, and put the file itself in its place"

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotARegularFileError(OSError):
    """A path names a folder, a FIFO, a socket, a device, or a link that may not be followed; a file is expected."""


def open_regular(path: str | os.PathLike[str], *, follow_links: bool = True) -> int:
    """Open a regular file for reading; the file descriptor, which the caller closes.

    Args:
        follow_links: False refuses a path whose last part is a symbolic link.

    Raises:
        NotARegularFileError: it is something else; the message says what.
        OSError: it cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags if follow_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links:
            raise _refusal(path, "a symbolic link") from None
        if error.errno == errno.ENXIO:  # nothing else on a disk cannot be opened at all
            raise _refusal(path, "a socket") from None
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _refusal(path, _KINDS.get(stat.S_IFMT(mode), "something else"))
    return handle


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The whole content of a regular file. Raises OSError as ``open_regular`` does."""
    handle = open_regular(path)
    try:
        size = os.fstat(handle).st_size
        chunks = []
        # One more byte than there should be: the empty answer is the end, whatever is appended meanwhile.
        while chunk := os.read(handle, size + 1):
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    finally:
        os.close(handle)


def open_arrow(path: str | os.PathLike[str], *, follow_links: bool = True) -> pa.OSFile:
    """A regular file as Arrow reads it, at random positions. Raises OSError as ``open_regular`` does."""
    import pyarrow as pa

    handle = open_regular(path, follow_links=follow_links)
    try:
        # Arrow opens paths only; this one is the file that was checked.
        return pa.OSFile(f"/dev/fd/{handle}", "rb")
    except FileNotFoundError as error:
        raise OSError(errno.ENOSYS, "this system has no /dev/fd; mount /proc") from error
    finally:
        os.close(handle)


def _refusal(path: str | os.PathLike[str], kind: str) -> NotARegularFileError:
    return NotARegularFileError(errno.EINVAL, f"it is {kind}; expected a regular file", os.fspath(path))
