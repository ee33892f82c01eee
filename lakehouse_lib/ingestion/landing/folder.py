"""A local or mounted landing folder.

A link in the folder must not lead out of it; else a user with write access to the folder could make the job read any
file. The folder itself may be a link. A file is opened folder by folder, beginning at the landing folder, and no step
follows a link. If a part of its path is a link, the links are resolved, and if the result is in the landing folder, it
is opened in the same way. So a folder that is replaced by a link after the check cannot lead out of the landing folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import flags_of, int64s, literal, strings
from lakehouse_lib.errors import LandingError, SourceRefusedError
from lakehouse_lib.ingestion.landing.base import LISTING, Fingerprint, SourceFile
from lakehouse_lib.ingestion.name_pattern import NamePattern
from lakehouse_lib.store.regular_files import NotARegularFileError, arrow_file, open_regular
from lakehouse_lib.store.uris import is_utf8

T = TypeVar("T")

#: Opens a folder of which the user may open files. On Linux it needs no right to list the folder.
_PASS = getattr(os, "O_PATH", os.O_RDONLY)
_DIGEST_CHUNK = 1 << 20
_ROWS = 1 << 14
_SKIP_HINT = "a name that starts with '_' is skipped"


@dataclass(frozen=True)
class LandingFolder:
    """A local landing folder: its path, and the pattern of its files' names."""

    path: Path
    pattern: NamePattern

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def is_remote(self) -> bool:
        return False

    def files(self, after: str = "") -> Iterator[pa.Table]:
        if not self.path.exists():
            raise LandingError(f"the landing folder {self.path} does not exist", hint="Create it, or correct --landing")
        if not self.path.is_dir():
            raise LandingError(
                f"the landing path {self.path} is a file; expected a folder", hint="Name the folder with the files"
            )
        folder = self.pattern.folder
        if folder:
            self._check_linked_folders(accumulate(folder.split("/"), "{}/{}".format))
        yield from _merged(self._listed(folder, after))

    def find(self, name: str) -> SourceFile | None:
        try:
            return _source_file(name, self._call_in_folder(name, _status))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def fingerprint(self, file: SourceFile) -> Fingerprint | None:
        digest = hashlib.blake2b(digest_size=16)
        try:
            with open(self._open(file.name), "rb") as content:
                while chunk := content.read(_DIGEST_CHUNK):
                    digest.update(chunk)
                status = os.fstat(content.fileno())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise SourceRefusedError(
                f"{file.name} cannot be read: {error.strerror}", hint="Grant read rights on it, or remove it"
            ) from error
        except OSError as error:
            raise self._unreadable(file.name, error) from error
        fingerprint = Fingerprint(file.name, file.size, file.modified, digest.hexdigest())
        return fingerprint if fingerprint.is_unchanged(_source_file(file.name, status)) else None

    def open(self, file: Fingerprint) -> pa.NativeFile:
        return arrow_file(self._open(file.name))

    def _listed(self, folder: str, after: str) -> Iterator[pa.Table]:
        """The files below a folder whose names come after ``after``, sorted by name."""
        try:
            handle = self._open_folder(folder.split("/") if folder else [])
        except (FileNotFoundError, NotADirectoryError):
            return  # deleted or replaced since its parent was listed, or a pattern's folder that does not exist
        except OSError as error:
            raise self._unreadable(folder, error) from error
        prefix = f"{folder}/" if folder else ""
        level = prefix.count("/")
        has_subfolders = self.pattern.depth is None or level < self.pattern.depth
        try:
            names, links = self._entries(handle, prefix)
            if has_subfolders:
                self._check_linked_folders(links)
            is_folder = pc.ends_with(names, "/")
            chosen = pc.and_(self.pattern.matches(names), pc.greater(names, literal(after, pa.string())))
            names = names.filter(pc.or_(is_folder, chosen))
            names = names.take(pc.sort_indices(names))
            start = 0
            for place in (*np.flatnonzero(flags_of(pc.ends_with(names, "/"))), len(names)):
                for first in range(start, place, _ROWS):
                    yield self._table(handle, len(prefix), names.slice(first, min(_ROWS, place - first)), links)
                start = int(place) + 1
                if place == len(names):
                    break
                subfolder = names[int(place)].as_py()
                if self.pattern.text is None:
                    raise LandingError(
                        f"{self.path / subfolder} is a folder; expected files only, because the source has no pattern",
                        hint=f"Give a pattern, such as '**/*' for the files of all folders, or rename it; {_SKIP_HINT}",
                    )
                if has_subfolders and (subfolder > after or after.startswith(subfolder)):
                    yield from self._listed(subfolder[:-1], after)
        finally:
            os.close(handle)

    def _entries(self, handle: int, prefix: str) -> tuple[Any, set[str]]:
        """The names in a folder without hidden and unfinished files, and the names of its links, all with the prefix.

        The name of a folder ends with ``/``.

        Raises:
            LandingError: a name is not UTF-8; the intent log and the quarantine cannot store such a name.
        """
        arrays, names, links = [], [], set()
        with os.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith((".", "_")) or name.endswith(".tmp"):
                    continue
                if not entry.is_file(follow_symlinks=False):
                    if entry.is_symlink():
                        links.add(prefix + name)
                    elif entry.is_dir(follow_symlinks=False):
                        name += "/"
                names.append(prefix + name)
                if len(names) == _ROWS:
                    arrays.append(self._names(names))
                    names = []
        return pa.chunked_array([*arrays, self._names(names)]).combine_chunks(), links

    def _names(self, names: list[str]) -> Any:
        try:
            return strings(names)
        except UnicodeEncodeError:
            wrong = next(name for name in names if not is_utf8(name))
            raise LandingError(
                f"{_printable(self.path / wrong)} has a name that is not UTF-8", hint=f"Rename it; {_SKIP_HINT}"
            ) from None

    def _table(self, handle: int, prefix: int, names: Any, links: set[str]) -> pa.Table:
        """The listing of these files of an open folder, without files that were deleted meanwhile.

        Args:
            prefix: the number of characters of a name before the file's own name.
        """
        present, sizes, times = [], [], []
        for name in names.to_pylist():
            try:
                status = os.stat(name[prefix:], dir_fd=handle, follow_symlinks=name in links)
            except FileNotFoundError:
                continue  # deleted since the listing, or a link without a target
            except OSError as error:
                raise self._unreadable(name, error) from error
            if name in links:
                self._real(name)
            if not stat.S_ISREG(status.st_mode):
                raise LandingError(f"{self.path / name} is not a regular file", hint=f"Remove it; {_SKIP_HINT}")
            present.append(name)
            sizes.append(status.st_size)
            times.append(status.st_mtime_ns // 1_000_000)
        if len(present) < len(names):
            names = strings(present)
        columns = [names, int64s(sizes), int64s(times), pa.repeat(literal("", pa.string()), len(present))]
        return pa.Table.from_arrays(columns, schema=LISTING)

    def _check_linked_folders(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            path = self.path / name
            with suppress(OSError):
                if path.is_symlink() and path.is_dir():
                    raise LandingError(
                        f"{path} is a link to a folder; expected a folder, because links are not followed",
                        hint=f"Replace the link by the folder itself; {_SKIP_HINT}",
                    )

    def _open_folder(self, parts: Sequence[str], access: int = os.O_RDONLY) -> int:
        """Open a folder below the landing folder without following a link; the result is a file descriptor.

        Args:
            access: ``os.O_RDONLY`` to list the folder, ``_PASS`` to open its files.
        """
        flags = access | os.O_DIRECTORY | os.O_CLOEXEC
        handle = os.open(self.path, flags)
        for part in parts:
            outer = handle
            try:
                handle = os.open(part, flags | os.O_NOFOLLOW, dir_fd=outer)
            finally:
                os.close(outer)
        return handle

    def _open(self, name: str) -> int:
        """Open a file; the result is a file descriptor."""
        return self._call_in_folder(name, lambda last, folder: open_regular(last, follow_links=False, folder=folder))

    def _call_in_folder(self, name: str, function: Callable[[str, int], T]) -> T:
        """The result of a function for the last part of a file's path and the descriptor of its open folder.

        Args:
            function: raises ``NotARegularFileError`` if the last part is a link.

        Raises:
            LandingError: the file is not in the landing folder.
        """
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if parts and ".." not in parts and not name.startswith("/"):
            with suppress(NotADirectoryError, NotARegularFileError):  # a part of the path may be a link
                return self._call_below(parts, function)
        return self._call_below(self._real(name).relative_to(os.path.realpath(self.path)).parts, function)

    def _call_below(self, parts: Sequence[str], function: Callable[[str, int], T]) -> T:
        *folders, last = parts
        folder = self._open_folder(folders, _PASS)
        try:
            return function(last, folder)
        finally:
            os.close(folder)

    def _real(self, name: str) -> Path:
        """The path of a file with all links followed.

        Raises:
            LandingError: the file is not in the landing folder.
        """
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise LandingError(f"{name!r} is not the name of a file in {self.path}", hint="Give a name without '..'")
        root, real = os.path.realpath(self.path), Path(os.path.realpath(self.path / name))
        if not real.is_relative_to(root) or real == Path(root):
            raise LandingError(
                f"{self.path / name} is a link to {_printable(real)}; expected a file in the landing folder",
                hint=f"Replace the link by the file itself; {_SKIP_HINT}",
            )
        return real

    def _unreadable(self, name: str, error: OSError) -> LandingError:
        return LandingError(
            f"{self.path / name} cannot be read: {error.strerror}", hint="Grant read and execute rights, or remove it"
        )


def _merged(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer tables, because a folder may have few files."""
    small: list[pa.Table] = []
    rows = 0
    for table in tables:
        small.append(table)
        rows += table.num_rows
        if rows >= _ROWS:
            yield pa.concat_tables(small)
            small, rows = [], 0
    if small:
        yield pa.concat_tables(small)


def _status(last: str, folder: int) -> os.stat_result:
    """The status of a file in an open folder."""
    status = os.stat(last, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise NotARegularFileError(errno.ELOOP, "it is a symbolic link; expected a regular file", last)
    return status


def _source_file(name: str, status: os.stat_result) -> SourceFile:
    return SourceFile(name, status.st_size, status.st_mtime_ns // 1_000_000)


def _printable(path: Path) -> str:
    """The path with escapes such as ``\\xe9`` for bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
