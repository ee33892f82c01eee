"""A table's store as a read-only file system of pyarrow, with the methods that datasets use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import ObjectStore


class StoreFileSystem(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow is untyped
    """The handler of the file system; ``of`` returns the file system. Paths are paths in the store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @staticmethod
    def of(store: ObjectStore) -> pyarrow.fs.FileSystem:
        return pyarrow.fs.PyFileSystem(StoreFileSystem(store))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreFileSystem) and other._store == self._store

    def __hash__(self) -> int:
        return hash(self._store)

    def get_type_name(self) -> str:
        return f"lakehouse+{type(self._store).__name__}"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [self._info(path) for path in paths]

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._store.open_input(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._store.open_input(path)

    def _info(self, path: str) -> Any:
        meta = self._store.head(path)
        if meta is None:
            return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.NotFound)
        return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.File, size=meta.size, mtime_ns=meta.modified * 1_000_000)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise InvalidArgumentError(
            "the file system of a pyarrow dataset only reads files; it cannot list, write or delete them",
            table=self._store.root,
            hint="List files with DeltaTable.file_uris, and write with write_deltalake",
        )

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
