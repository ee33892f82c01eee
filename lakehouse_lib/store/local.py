"""The local file system as an object store.

A new object is written to a temporary file, synced and linked to its name. ``link`` fails if the name exists, so only
one of two writers succeeds, and a reader never sees half an object. Folders are synced, too, because a power failure
could otherwise lose the name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_lib.errors import ObjectNotFoundError, PathOutsideTableError, StoreError, StoreRefusedError
from lakehouse_lib.store.base import ObjectMeta, PathLimits, SparkAccess
from lakehouse_lib.store.file_errors import NO_FOLDER, NO_FOLDER_HINT, REFUSAL_HINTS, obstacle_of
from lakehouse_lib.store.folder_lock import folder_lock
from lakehouse_lib.store.regular_files import HINT, NotARegularFileError, open_arrow, open_regular, read_regular
from lakehouse_lib.threads import map_in_threads

if TYPE_CHECKING:
    import pyarrow as pa

_SYNC_THREADS = 8
_LOG = "_delta_log"
_TICK_NANOSECONDS = 20_000_000  # kernels tick every 1 to 10 ms
# Bytes of a data file's name and of the temporary folders that Spark's own writer puts around it.
_BYTES_OF_ATTEMPT = 256


class LocalStore:
    """An object store whose objects are the files below ``root``.

    Args:
        root: absolute path of the table's folder, which may not exist yet.
        fsync: whether every put and commit is synced, so that it survives a power failure. False only for tables that
            may be lost.
        allowed_roots: absolute paths of other folders whose files may be read.
    """

    def __init__(self, root: str, *, fsync: bool = True, allowed_roots: Iterable[str] = ()) -> None:
        self._root = os.path.normpath(root)
        self._fsync = fsync
        self._list_calls = 0
        self._allowed_roots = tuple(os.path.normpath(allowed_root) for allowed_root in allowed_roots)

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    @property
    def root(self) -> str:
        return self._root

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("file",)

    @property
    def limits(self) -> PathLimits:
        """Linux's limits, PATH_MAX and NAME_MAX."""
        return PathLimits(4096, len(os.fsencode(self._root)) + _BYTES_OF_ATTEMPT, 255)

    @property
    def is_remote(self) -> bool:
        return False

    @property
    def allowed_roots(self) -> tuple[str, ...]:
        return self._allowed_roots

    @property
    def list_calls(self) -> int:
        return self._list_calls

    def open_location(self, location: str) -> LocalStore:
        return LocalStore(location, fsync=self._fsync)

    def read(self, path: str) -> bytes:
        with self._failures(path):
            return read_regular(self._readable_name(path))

    def put(self, path: str, data: bytes) -> None:
        with self._failures(path):
            temporary_file = self._write_temporary_file(path, data)
            try:
                _delete_hadoop_checksum(self._full_path(path))
                temporary_file.replace(self._full_path(path))
            except BaseException:
                temporary_file.unlink(missing_ok=True)
                raise
            self._sync_folder(temporary_file.parent)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = self._full_path(path)
        with self._failures(path, storing=True):
            if target.exists():
                return False
            temporary_file = self._write_temporary_file(path, data)
            try:
                _delete_hadoop_checksum(target)
                os.link(temporary_file, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                    raise StoreRefusedError(
                        f"{target.parent} does not support hard links, so commits there would not be safe",
                        table=self._root,
                        hint="Put the table on a file system with hard links (ext4, xfs, NFS)",
                    ) from error
                raise
            finally:
                with contextlib.suppress(OSError):  # a leftover temporary file does not change the outcome
                    temporary_file.unlink(missing_ok=True)
        with self._failures(path):
            self._sync_folder(target.parent)
        return True

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        with self._failures(path):
            folder = self._full_path(path).parent
            folder.mkdir(parents=True, exist_ok=True)
            with folder_lock(folder, table=self._root):
                current = read_regular(self._full_path(path)) if self._full_path(path).exists() else None
                if current != expected:
                    return False
                self.put(path, data)
                return True

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        with self._failures(folder):
            self._list_calls += 1
            try:
                with os.scandir(self._full_path(folder)) as entries:
                    sorted_entries = sorted(
                        (entry for entry in entries if entry.name >= start), key=lambda entry: entry.name
                    )
            except (FileNotFoundError, NotADirectoryError):
                return
        for entry in sorted_entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            with self._failures(path):
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # it was deleted meanwhile
            if not _is_folder(status):
                yield _meta(path, status)

    def folders(self, folder: str = "") -> list[str]:
        with self._failures(""):
            try:
                entries = self._scan(folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=entry.name == _LOG))

    def walk(self, folder: str = "", after: str = "") -> Iterator[ObjectMeta]:
        metas = self._walk(folder)
        return (meta for meta in metas if meta.path > after) if after else metas

    def _walk(self, folder: str) -> Iterator[ObjectMeta]:
        with self._failures(""):
            pending = [folder]
            while pending:
                folder = pending.pop()
                try:
                    entries = self._scan(folder)
                except (FileNotFoundError, NotADirectoryError):
                    continue  # a folder may be deleted during a walk
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path)
                        continue
                    if entry.is_symlink():
                        # A link may lead out of the table or in a circle, so it is not followed. Only ``_delta_log``
                        # is: it may be a link to the log of another table.
                        if entry.name == _LOG and entry.is_dir():
                            yield from self.list_from(path)
                            continue
                        with contextlib.suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            yield replace(_meta(path, status), link=os.path.realpath(entry.path))
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        yield _meta(path, entry.stat(follow_symlinks=False))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            name = self._full_name(path)
            try:
                os.unlink(name)  # noqa: PTH108 - a Path takes as long as the deletion
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue  # as for ``head``, a folder is not an object
            except OSError:
                with self._failures(path):
                    raise

    def head(self, path: str) -> ObjectMeta | None:
        with self._failures(path):
            try:
                status = os.stat(self._readable_name(path))  # noqa: PTH116 - a Path takes longer than the call
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _meta(path, status) if not _is_folder(status) else None

    def sync(self, paths: Iterable[str]) -> None:
        if not self._fsync:
            return
        files = [self._full_path(path) for path in paths if not self._is_allowed(path)]
        folders = {folder for file in files for folder in self._folders_up_to_root(file)}
        for _ in map_in_threads(self._sync_one, [*files, *folders], _SYNC_THREADS):
            pass

    def read_range(self, path: str, start: int, length: int, tag: str) -> bytes | None:
        with self._failures(path, storing=True):
            try:
                handle = open_regular(self._readable_name(path))
            except FileNotFoundError:
                return None
            try:
                data = os.pread(handle, length, start)
                return data if _tag(os.fstat(handle)) == tag else None
            finally:
                os.close(handle)

    def open_input(self, path: str) -> pa.NativeFile:
        with self._failures(path):
            return open_arrow(self._readable_name(path))

    def open_output(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        with self._failures(path):
            target = self._full_path(path)
            self._make_folder(Path(self._root))  # ``sync`` makes the folders below it durable
            target.parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(str(target), "wb")

    def explain(self, error: OSError) -> str | None:
        return REFUSAL_HINTS.get(error.errno or 0)

    def spark_access(self, location: str) -> SparkAccess:
        return SparkAccess(f"file:{location}", renames=True)

    def make_root(self) -> None:
        with self._failures(""):
            self._make_folder(Path(self._root))

    def _full_path(self, path: str) -> Path:
        return Path(self._full_name(path))

    def _full_name(self, path: str) -> str:
        if "\0" in path:
            raise PathOutsideTableError(f"the path {path!r} has a NUL byte; no file has such a name", table=self._root)
        if path.startswith("/") or ".." in path.split("/"):
            raise PathOutsideTableError(f"the path {path!r} leaves the table's folder", table=self._root)
        return f"{self._root}/{path}"

    def _readable_name(self, path: str) -> str:
        return path if self._is_allowed(path) else self._full_name(path)

    def _is_allowed(self, path: str) -> bool:
        """Whether the path is an absolute path below one of ``allowed_roots``."""
        return (
            path.startswith("/")
            and "\0" not in path
            and ".." not in path.split("/")
            and any(path.startswith(f"{allowed_root.rstrip('/')}/") for allowed_root in self._allowed_roots)
        )

    def _scan(self, folder: str) -> list[os.DirEntry[str]]:
        self._list_calls += 1
        return list(os.scandir(self._full_name(folder)))

    def _write_temporary_file(self, path: str, data: bytes) -> Path:
        target = self._full_path(path)
        self._make_folder(target.parent)
        temporary_file = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
        try:
            with temporary_file.open("xb") as out:
                out.write(data)
                out.flush()
                if self._fsync:
                    os.fsync(out.fileno())
        except BaseException:
            temporary_file.unlink(missing_ok=True)
            raise
        return temporary_file

    def _make_folder(self, folder: Path) -> None:
        """Make a folder, and sync its parent folder, so that the folder survives a power failure."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self._sync_folder(folder.parent)

    def _sync_folder(self, folder: Path) -> None:
        if self._fsync:
            _sync(folder)

    def _sync_one(self, path: Path) -> None:
        with self._failures(str(path.relative_to(self._root))):
            _sync(path)

    def _folders_up_to_root(self, file: Path) -> Iterator[Path]:
        root = Path(self._root)
        for folder in file.parents:
            yield folder
            if folder == root:
                return

    @contextlib.contextmanager
    def _failures(self, path: str, *, storing: bool = False) -> Iterator[None]:
        """Raise errors of the operating system as errors of this library.

        Args:
            storing: the block stores an object. An error of ``REFUSAL_HINTS`` then means that nothing was stored, and
                becomes ``StoreRefusedError``.
        """
        try:
            yield
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"{path} is missing", table=self._root) from error
        except NotARegularFileError as error:
            raise StoreError(f"{path}: {error.strerror}", table=self._root, hint=HINT) from error
        except OSError as error:
            kind = StoreRefusedError if storing and error.errno in REFUSAL_HINTS else StoreError
            hint = REFUSAL_HINTS.get(error.errno or 0) if storing else None
            text = f"{path or 'the folder'}: {error.strerror or error}"
            obstacle = obstacle_of(Path(self._root, path or "object")) if error.errno in NO_FOLDER else None
            if obstacle is not None:
                text, hint = f"{obstacle}; expected a folder", NO_FOLDER_HINT
            raise kind(text, table=self._root, hint=hint) from error


def _delete_hadoop_checksum(target: Path) -> None:
    """Delete the checksum file that Hadoop has stored beside an object that is about to be written.

    Spark on a local disk could not read the new object, because its content does not have the old checksum. If there is
    no checksum file, Hadoop reads an object without a check.
    """
    target.with_name(f".{target.name}.crc").unlink(missing_ok=True)


def _meta(path: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000, _tag(status), names=status.st_nlink)


def _tag(status: os.stat_result) -> str:
    """The inode and time of a file; "" if a file with other content could have the same inode and time.

    A tag needs a file system with times finer than a millisecond, and a tick of the kernel's clock since the file was
    written. A later replacement then has another time, and most likely another inode.
    """
    is_fine = status.st_mtime_ns % 1_000_000 != 0
    has_ticked = time.time_ns() - status.st_mtime_ns > _TICK_NANOSECONDS
    return f"{status.st_ino}.{status.st_mtime_ns}" if is_fine and has_ticked else ""


def _is_folder(status: os.stat_result) -> bool:
    return status.st_mode & 0o170000 == 0o040000


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for the writer of a FIFO
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot sync folders and return these errors; PostgreSQL ignores them, too.
        if error.errno not in (errno.EINVAL, errno.EBADF) or not path.is_dir():
            raise
    finally:
        os.close(handle)
