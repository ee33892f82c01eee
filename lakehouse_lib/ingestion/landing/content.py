"""The content of a landed file while it is read, so that errors of the medium differ from errors in the content."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

from lakehouse_lib.errors import LandingError


class Content(io.RawIOBase):
    """A file for random access that remembers the error that has interrupted a read.

    pyarrow raises ``OSError`` both for a failing disk and for damaged content, such as a truncated archive. Here, a
    failing disk is a ``LandingError``. Its reader of ORC loses the error, so it is remembered.

    Args:
        name: of the file, for the error.
        opened: the open file, which ``close`` closes.
        on_read: called with the number of bytes of each read; None: reads are not counted.
    """

    def __init__(self, name: str, opened: pa.NativeFile, on_read: Callable[[int], object] | None = None) -> None:
        self._name = name
        self._opened = opened
        self._on_read = on_read
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._opened.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._opened.seek(offset, whence))

    def read(self, size: int = -1) -> bytes:
        return bytes(self.read_buffer(size).to_pybytes())

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """As ``read``; pyarrow calls it, because it does not copy the bytes."""
        try:
            data = self._opened.read_buffer(None if size < 0 else size)
        except OSError as error:
            self.error = unreadable(self._name, error)
            raise self.error from error
        except Exception as error:
            self.error = error
            raise
        if self._on_read is not None:
            self._on_read(data.size)
        return data

    def close(self) -> None:
        self._opened.close()
        super().close()


def unreadable(name: str, error: OSError) -> LandingError:
    """The error of a file that could not be opened or read, although its landing folder lists it."""
    return LandingError(
        f"{name} cannot be read: {error.strerror or error}",
        hint="Run the load again, which repeats the batch; if the file is lost, give the batch up with --give-up",
    )
