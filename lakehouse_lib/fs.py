"""``DeltaStorageHandler``: the folder of a table as a pyarrow file system, for programs that write files there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from lakehouse_lib.engine.arrow.store_filesystem import StoreFileSystem
from lakehouse_lib.errors import (
    DataFileMissingError,
    InvalidArgumentError,
    NotSupportedError,
    ObjectNotFoundError,
    StoreError,
)
from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.store import ObjectMeta, open_store

if TYPE_CHECKING:
    from lakehouse_lib.table.delta_table import DeltaTable

__all__ = ["DeltaStorageHandler"]


class DeltaStorageHandler(StoreFileSystem):
    """The handler of a ``pyarrow.fs.PyFileSystem`` whose root is the table's folder.

    A folder exists while it has files. Files of the log cannot be written or deleted.

    Args:
        table_uri: the table's location; the folder may have no table.
        options: the options of the store.
        known_sizes: ignored; sizes are read from the store.
    """

    def __init__(
        self,
        table_uri: str,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,  # noqa: ARG002 - the signature of deltalake
    ) -> None:
        super().__init__(open_store(table_uri, options))

    @classmethod
    def from_table(
        cls,
        table: DeltaTable,
        options: dict[str, str] | None = None,  # noqa: ARG003 - the signature of deltalake
        known_sizes: dict[str, int] | None = None,  # noqa: ARG003
    ) -> DeltaStorageHandler:
        """The file system of an open table, with its store; ``options`` and ``known_sizes`` are ignored."""
        handler = cls.__new__(cls)
        StoreFileSystem.__init__(handler, table.store)
        return handler

    def equals(self, other: object) -> bool:
        return self == other

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [self._info_of(path) for path in paths]

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[Any]:
        base = self.normalize_path(selector.base_dir)
        files = [meta for meta in self._store.walk(base) if not meta.link]
        if not files and not selector.allow_not_found and base:
            raise self._missing_error(base)
        prefix = f"{base}/" if base else ""
        below = {meta.path: meta.path.removeprefix(prefix).split("/") for meta in files}
        folders = {
            prefix + "/".join(parts[: depth + 1])
            for parts in below.values()
            for depth in range(len(parts) - 1)
            if selector.recursive or depth == 0
        }
        shown = [_file_info(meta) for meta in files if selector.recursive or len(below[meta.path]) == 1]
        return [pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.Directory) for path in sorted(folders)] + shown

    def open_input_file(self, path: str) -> pa.NativeFile:
        try:
            return super().open_input_file(self.normalize_path(path))
        except ObjectNotFoundError as error:
            raise self._missing_error(path) from error

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.NativeFile:  # noqa: ARG002
        return self._store.open_output(self._writable(path))

    def open_append_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.NativeFile:  # noqa: ARG002
        raise NotSupportedError(
            f"{path} cannot be appended to", table=self._store.root, hint="Write the whole file with open_output_stream"
        )

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Do nothing, because a folder exists while it has files."""

    def delete_file(self, path: str) -> None:
        target = self._writable(path)
        if self._store.head(target) is None:
            raise self._missing_error(path)
        self._store.delete_many([target])

    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        paths = [self._writable(meta.path) for meta in self._store.walk(self._writable(path)) if not meta.link]
        if not paths and not missing_dir_ok:
            raise self._missing_error(path)
        self._store.delete_many(paths)

    def delete_root_dir_contents(self) -> None:
        """Raise InvalidArgumentError, because this would delete the log."""
        self._writable("")

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file. If this fails after ``dest`` was opened, ``dest`` is deleted, because it may be truncated."""
        name, target = self._plain(src), self._writable(dest)
        with self.open_input_file(name) as source:
            if name == target:  # the file would be empty after it is opened for writing
                return
            copy = self._store.open_output(target)
            try:
                with copy:
                    while piece := source.read(1 << 24):
                        copy.write(piece)
            except BaseException:
                with suppress(StoreError):
                    self._store.delete_many([target])
                raise

    def move(self, src: str, dest: str) -> None:
        source = self._writable(src)
        self.copy_file(source, dest)
        if source != self._writable(dest):
            self._store.delete_many([source])

    def _info_of(self, path: str) -> Any:
        name = self.normalize_path(path)
        meta = self._store.head(name) if name else None
        if meta is not None:
            return _file_info(meta, path)
        is_folder = not name or next(iter(self._store.walk(name)), None) is not None
        kinds = pyarrow.fs.FileType
        return pyarrow.fs.FileInfo(path, kinds.Directory if is_folder else kinds.NotFound)

    def _writable(self, path: str) -> str:
        name = self._plain(path)
        if not name or name.split("/")[0] == LOG:
            raise InvalidArgumentError(
                f"the path is {path!r}; expected a path below the table's folder and outside of {LOG}",
                table=self._store.root,
                hint="Delete a table with the tools of its store",
            )
        return name

    def _plain(self, path: str) -> str:
        """The normalized path. A second spelling of a path, such as ``./_delta_log``, is refused."""
        name = self.normalize_path(path)
        if name and not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise InvalidArgumentError(
                f"the path is {path!r}; expected a path without empty parts, . and ..",
                table=self._store.root,
                hint="Write the path relative to the table's folder",
            )
        return name

    def _missing_error(self, path: str) -> DataFileMissingError:
        return DataFileMissingError(f"{path} is missing", table=self._store.root, hint="Check the path")


def _file_info(meta: ObjectMeta, path: str | None = None) -> Any:
    kind = pyarrow.fs.FileType.File
    return pyarrow.fs.FileInfo(path or meta.path, kind, size=meta.size, mtime_ns=meta.modified * 1_000_000)
