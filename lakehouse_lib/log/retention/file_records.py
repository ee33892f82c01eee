"""Records of files that vacuum keeps although the latest version does not need them.

A record is an Arrow file ``_lakehouse/KIND/NAME.arrow`` in the folder of the table. It contains the store paths of the
files. The metadata of its schema has a description as JSON. Vacuum keeps the files until the record is deleted. It
never deletes a record, because ``_lakehouse`` is a hidden folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from lakehouse_lib.arrow.values import as_array
from lakehouse_lib.errors import ObjectNotFoundError, StoreError
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.store import ObjectMeta, ObjectStore
from lakehouse_lib.store.concurrent import map_requests

_FOLDER = "_lakehouse"
_SUFFIX = ".arrow"

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class FileRecord:
    """A record.

    Attributes:
        path: the store path of the record.
        modified: when it was written, in ms since the epoch.
        files: the store paths of the files.
        description: the JSON values that the writer of the record has added.
    """

    path: str
    modified: int
    files: pa.Array
    description: Mapping[str, Any]


def record_path(kind: str, name: str) -> str:
    """The store path of a record."""
    return f"{_FOLDER}/{kind}/{name}{_SUFFIX}"


def put_record(store: ObjectStore, path: str, files: pa.Table, key: bytes, description: Mapping[str, Any]) -> bool:
    """Write the record of these files, unless the path exists, and return whether it was written.

    Args:
        files: a files table.
        key: the key of the description in the metadata of the schema.
    """
    paths = pa.concat_arrays(
        [file_paths.canonical(files["path"], store), deletion_vector.paths_of(store, files["deletionVector"])]
    )
    schema = pa.schema([pa.field("path", pa.string())], {key: json.dumps(description).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(pa.table([paths], schema=schema))
    return store.put_if_absent(path, sink.getvalue().to_pybytes())


def list_records(store: ObjectStore, keys: Mapping[str, bytes]) -> dict[str, list[FileRecord]]:
    """The records that exist now, by kind.

    Args:
        keys: kind -> the key of the description in the metadata of the schema.

    Raises:
        StoreError: a record cannot be read.
    """
    records: dict[str, list[FileRecord]] = {kind: [] for kind in keys}

    def read(meta: ObjectMeta, reader: pa.RecordBatchFileReader) -> FileRecord:
        description = json.loads(reader.schema.metadata[keys[_kind_of(meta.path)]])
        return FileRecord(meta.path, meta.modified, as_array(reader.read_all()["path"]), dict(description))

    for record in _each(store, tuple(keys), read):
        records[_kind_of(record.path)].append(record)
    return records


def descriptions(store: ObjectStore, kind: str, key: bytes) -> list[dict[str, Any]]:
    """The descriptions of the records of a kind.

    Raises:
        StoreError: a record cannot be read.
    """

    def describe(_: ObjectMeta, reader: pa.RecordBatchFileReader) -> dict[str, Any]:
        description: dict[str, Any] = json.loads(reader.schema.metadata[key])
        return description

    return _each(store, (kind,), describe)


def _each(
    store: ObjectStore, kinds: Sequence[str], ask: Callable[[ObjectMeta, pa.RecordBatchFileReader], _Answer]
) -> list[_Answer]:
    """The results of ``ask`` for each record of these kinds."""

    def read(meta: ObjectMeta) -> _Answer | None:
        try:
            with store.open_input(meta.path) as source, pa.ipc.open_file(source) as reader:
                return ask(meta, reader)
        except ObjectNotFoundError:  # deleted after it was listed
            return None
        except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
            raise StoreError(
                f"the record {meta.path} of files that vacuum keeps cannot be read: {error}",
                table=store.root,
                hint="Restore it from a backup, or delete it if the clone or the pin is not needed any more",
            ) from error

    folders = tuple(f"{_FOLDER}/{kind}/" for kind in kinds)
    metas = [meta for meta in store.walk(_FOLDER) if meta.path.startswith(folders) and meta.path.endswith(_SUFFIX)]
    return [answer for answer in map_requests(store, read, metas) if answer is not None]


def _kind_of(path: str) -> str:
    return path.split("/")[1]
