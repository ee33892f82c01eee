"""The data files of a version, and the files of their deletion vectors, that the store does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, bools, strings
from lakehouse_lib.errors import ObjectNotFoundError, PathOutsideTableError
from lakehouse_lib.json_text import first_texts
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests
from lakehouse_lib.store.uris import SCHEME

#: Matches a path in another store.
_ELSEWHERE = re.compile(f"{SCHEME}://")
#: The existence of up to this many files is checked by one request per file, of more files by a listing of the table.
_MOST_REQUESTS = 1000
#: The largest number of paths in an error.
_NAMED_IN_ERROR = 10


def missing_files(files: pa.Table, stored_paths: pa.ChunkedArray, store: ObjectStore) -> pa.Table:
    """The rows of ``files`` whose ``path`` is not in ``stored_paths`` (store paths). Reads nothing."""
    paths = file_paths.canonical(files["path"], store)
    return files.filter(pc.invert(pc.is_in(paths, value_set=pc.unique(stored_paths))))


def without_object(files: pa.Table, store: ObjectStore) -> pa.Table:
    """The rows of ``files`` for which the store has no object; sends one request per path."""
    if not len(files):
        return files
    exist = _exist(file_paths.canonical(files["path"], store).to_pylist(), store)
    return files.filter(bools([not is_there for is_there in exist]))


def without_vector(files: pa.Table, missing: pa.Table, store: ObjectStore) -> list[str]:
    """Log paths of existing files whose deletion vector file does not exist.

    Args:
        files: a files table.
        missing: the rows of ``files`` whose data files do not exist.
    """
    marked = files.filter(files["deletionVector"].is_valid())
    marked = marked.filter(pc.invert(pc.is_in(marked["path"], value_set=as_array(missing["path"]))))
    if not len(marked):
        return []
    vectors = deletion_vector.paths_of(store, marked["deletionVector"]).to_pylist()
    exist = _exist(vectors, store)
    if all(exist):
        return []
    missing_vectors = strings([path for path, is_there in zip(vectors, exist, strict=True) if not is_there])
    paths = []
    for row in range(len(marked)):
        vector = deletion_vector.paths_of(store, marked["deletionVector"].slice(row, 1))
        if pc.any(pc.is_in(vector, value_set=missing_vectors)).as_py():
            paths.append(str(marked["path"][row].as_py()))
    return paths


def _exist(paths: Sequence[str], store: ObjectStore) -> list[bool]:
    """For each path, whether its object exists; True outside the table, where this library must not read."""

    def look(path: str) -> bool:
        if "\0" in unquote(path):
            return False  # no file can have such a path
        if _ELSEWHERE.match(path):
            return True
        try:
            return store.head(path) is not None
        except PathOutsideTableError:
            return True

    return map_requests(store, look, paths)


def missing_paths(files: pa.Table, store: ObjectStore) -> pa.Array:
    """The log paths of files that do not exist, or whose deletion vector does not exist.

    Args:
        files: a files table.
    """
    unlisted = files
    if len(files) > _MOST_REQUESTS:
        # The listing has no files behind a symbolic link or outside the table, so these are checked by requests.
        unlisted = missing_files(files, list_objects(store).objects["path"], store)
    missing = without_object(unlisted, store)
    return pa.concat_arrays([as_array(missing["path"]), strings(without_vector(files, missing, store))])


def missing_files_error(missing: pa.Array, version: Snapshot, hint: str) -> ObjectNotFoundError:
    """The error for a version that cannot be used because of these missing files; the message names up to ten."""
    named = first_texts(missing.to_pylist(), _NAMED_IN_ERROR)
    return ObjectNotFoundError(
        f"{len(missing)} of {version.file_count} files of version {version.version} do not exist: {named}",
        table=version.store.root,
        version=version.version,
        hint=hint,
        code="DELTA_VERSION_FILES_MISSING",
    )
