"""The opening of local files, with a check that they are regular files.

An ordinary ``open`` of a FIFO waits until another process writes to it, possibly for ever. So the path is opened
without waiting. Then the open file is checked, because the path itself may be replaced after a check.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: The hint for a ``NotARegularFileError``.
HINT = "Move it away, and put the regular file in its place"

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotARegularFileError(OSError):
    """A path is a folder, a FIFO, a socket, a device, or a link that must not be followed; expected a regular file."""


def open_regular(path: str | os.PathLike[str], *, follow_links: bool = True, folder: int | None = None) -> int:
    """Open a regular file for reading; the result is a file descriptor, which the caller closes.

    Args:
        follow_links: False refuses a path whose last part is a symbolic link.
        folder: the file descriptor of the folder that a relative path starts in; None: the working folder.

    Raises:
        NotARegularFileError: the file is not a regular file; the message has its kind.
        OSError: the file cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags if follow_links else flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links:
            raise _refusal(path, "a symbolic link") from None
        if error.errno == errno.ENXIO:  # the error of opening a socket
            raise _refusal(path, "a socket") from None
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _refusal(path, _KINDS.get(stat.S_IFMT(mode), "something else"))
    return handle


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file. Raises OSError as ``open_regular`` does."""
    handle = open_regular(path)
    try:
        size = os.fstat(handle).st_size
        chunks = []
        # Ask for one byte more than the size, which may be 0: an empty read then always means the end of the file.
        while chunk := os.read(handle, size + 1):
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    finally:
        os.close(handle)


def open_arrow(path: str | os.PathLike[str]) -> pa.OSFile:
    """A regular file as an Arrow file for random access. Raises OSError as ``open_regular`` does."""
    return arrow_file(open_regular(path))


def arrow_file(handle: int) -> pa.OSFile:
    """An open file as an Arrow file for random access. The descriptor is closed, and Arrow opens the file itself."""
    import pyarrow as pa

    try:
        # Arrow opens only paths; this path is the file that was checked.
        return pa.OSFile(f"/dev/fd/{handle}", "rb")
    except FileNotFoundError as error:
        raise OSError(errno.ENOSYS, "this system has no /dev/fd; mount /proc") from error
    finally:
        os.close(handle)


def _refusal(path: str | os.PathLike[str], kind: str) -> NotARegularFileError:
    return NotARegularFileError(errno.EINVAL, f"it is {kind}; expected a regular file", os.fspath(path))
