"""Records of shallow clones: which files of a table its clones refer to, so that vacuum spares them.

A record is an object ``_lakehouse/clones/<uuid>.arrow`` in the folder of the source. It is written before the clone and
stays until someone deletes it, because the source cannot see whether the clone still exists.
"""

from __future__ import annotations

import json
import uuid

import pyarrow as pa

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.errors import StoreError
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import at_once

FOLDER = "_lakehouse/clones"

_CLONE = b"clone"


def put_record(source: ObjectStore, files: pa.Table, target: str, version: int) -> str:
    """Record a clone of these files; returns the path of the record.

    Args:
        files: a files table of the source.
        target: the location of the clone.
        version: the version of the source that is cloned.
    """
    paths = pa.concat_arrays(
        [file_paths.canonical(files["path"], source), deletion_vector.paths_of(source, files["deletionVector"])]
    )
    described = json.dumps({"location": target, "sourceVersion": version})
    table = pa.table([paths], schema=pa.schema([pa.field("path", pa.string())], {_CLONE: described.encode()}))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    path = f"{FOLDER}/{uuid.uuid4()}.arrow"
    source.put(path, sink.getvalue().to_pybytes())
    return path


def cloned_paths(source: ObjectStore) -> pa.ChunkedArray:
    """The store paths of the files to which clones refer, from the records that exist now.

    Raises:
        StoreError: a record cannot be read.
    """
    records = [meta.path for meta in source.walk(FOLDER) if meta.path.endswith(".arrow")]
    return pa.chunked_array([strings([]), *at_once(source, lambda path: _paths(source, path), records)], pa.string())


def _paths(source: ObjectStore, path: str) -> pa.Array:
    try:
        with pa.ipc.open_file(pa.py_buffer(source.read(path))) as reader:
            return reader.read_all()["path"].combine_chunks()
    except (pa.ArrowException, KeyError) as error:
        raise StoreError(
            f"the record {path} of a clone cannot be read: {error}",
            table=source.root,
            hint="Restore it from a backup, or delete it if the clone no longer exists",
        ) from error
