"""The list of files that Spark scans, in the format of its streaming file sink's log.

``spark.read.parquet(*paths)`` looks up every path before it plans. With the log of a streaming file sink, which is one
file in a scratch folder, Spark plans 10,000 files in half a second, with pruning and pushdown.
"""

from __future__ import annotations

import atexit
import hashlib
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array
from lakehouse_lib.engine.parquet.footer import missing_file
from lakehouse_lib.engine.scratch_folders import scratch_folder
from lakehouse_lib.engine.spark import store_access
from lakehouse_lib.engine.spark.columns import struct_type
from lakehouse_lib.engine.spark.connect import is_connect
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError
from lakehouse_lib.schema import StructType
from lakehouse_lib.store import ObjectStore

_BLOCK_SIZE = 128 << 20
_NEEDS_QUOTING = r"[^A-Za-z0-9_.~/=-]"
# If this setting is true, Spark ignores the list and scans the list's folder, which has no data files.
_IGNORED = "spark.sql.streaming.fileStreamSink.ignoreMetadata"


def scan_listed(
    spark: Any,
    schema: StructType,
    files: pa.Table,
    store: ObjectStore,
    options: Mapping[str, str],
    *,
    numbered: bool = False,
) -> Any:
    """A DataFrame with the columns of ``schema``: Spark's Parquet scan of exactly these files.

    Args:
        files: a files table with store paths.
        options: the options of the scan.
        numbered: as for ``manifest``.

    Raises:
        InvalidArgumentError: the session ignores such lists, or the server of Spark Connect does not find the list.
        LogCorruptedError: a file has no bytes.
        ObjectNotFoundError: a file with the size 0 in the log is missing.
    """
    if str(spark.conf.get(_IGNORED, "false")).lower() == "true":
        raise InvalidArgumentError(
            f"{_IGNORED} is true in this Spark session; expected false, because Spark would read no file",
            table=store.root,
            hint=f'Call spark.conf.set("{_IGNORED}", "false"), or read in another session',
            code="DELTA_SPARK_CONFIGURATION",
        )
    reader = spark.read.schema(struct_type(schema)).options(**options).option("__globPaths__", "false")
    frame = reader.parquet(manifest(files, store, numbered=numbered))
    if is_connect(spark):
        _check_visible(frame, store)
    return frame


def _check_visible(frame: Any, store: ObjectStore) -> None:
    """Refuse a scan whose list the server of Spark Connect does not find, before a user reads rows."""
    from pyspark.errors import AnalysisException

    try:
        frame.schema  # noqa: B018 - the server looks for the list
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise InvalidArgumentError(
            f"the Spark Connect server does not find the list of files in {_scratch()} of this machine",
            table=store.root,
            hint="Run this process on the server's machine, or set TMPDIR to a folder that both machines have at the "
            "same path; to_pyarrow_table() reads without Spark",
            code="DELTA_SPARK_CONFIGURATION",
        ) from error


def manifest(files: pa.Table, store: ObjectStore, *, numbered: bool = False) -> str:
    """The URI of a scratch folder with a file sink log that lists exactly these files.

    The same list always has the same folder.

    Args:
        files: a files table with store paths.
        numbered: whether the list has the row numbers of ``files`` in place of modification times (ms since the epoch).
            A scan then knows the file of each row at low cost (``_metadata.file_modification_time``).

    Raises:
        LogCorruptedError: a file has no bytes.
        ObjectNotFoundError: a file with the size 0 in the log is missing.
    """
    sizes = _sizes(files, store)
    times = np.arange(len(files)) if numbered else pc.fill_null(files["modificationTime"], 0).to_numpy()
    columns = {
        "path": pc.binary_join_element_wise('"', _uris(files["path"], store), '"', ""),
        "size": pc.cast(sizes, pa.string()),
        "modificationTime": pc.cast(pa.array(times, pa.int64()), pa.string()),
    }
    pieces: list[object] = []
    for name, values in columns.items():
        pieces += [f'{"," if pieces else "{"}"{name}":', values]
    tail = f',"isDir":false,"blockReplication":1,"blockSize":{_BLOCK_SIZE},"action":"add"}}'
    lines = pc.binary_join_element_wise(*pieces, tail, "")
    text = b"\n".join([b"v1", *map(_text, _chunks(lines))])
    folder = _scratch() / hashlib.sha256(text).hexdigest()[:32]
    log = folder / "_spark_metadata"
    if not (log / "0").exists():
        log.mkdir(parents=True, exist_ok=True)
        temporary_file = log / f".{uuid.uuid4().hex}.tmp"  # other threads may be writing the same list
        temporary_file.write_bytes(text)
        temporary_file.rename(log / "0")
    return f"file:{folder}"  # not percent-encoded, because Spark does not decode it


def _sizes(files: pa.Table, store: ObjectStore) -> pa.Array:
    """The sizes of the files; a size of 0 is looked up in the store, because Spark silently skips empty files."""
    sizes = pc.fill_null(files["size"], 0).combine_chunks()
    empty = np.flatnonzero(pc.less_equal(sizes, 0).to_numpy(zero_copy_only=False))
    if not len(empty):
        return sizes
    actual_sizes = sizes.to_numpy(zero_copy_only=False).copy()
    for row in empty:
        path = files["path"][int(row)].as_py()
        meta = store.head(path)
        if meta is None:
            raise missing_file(path, table=store.root)
        if not meta.size:
            raise LogCorruptedError(
                f"the data file {path} has no bytes; expected a Parquet file",
                table=store.root,
                hint="Restore the file from a backup, or read an older version without it",
            )
        actual_sizes[row] = meta.size
    return pa.array(actual_sizes, pa.int64())


def _uris(paths: pa.ChunkedArray, store: ObjectStore) -> pa.Array:
    """The URIs of store paths for Spark, percent-encoded."""
    paths = as_array(paths)
    base, relative_paths = pa.scalar(_encoded(store_access.uri(store, store.root))), paths
    for location in store.allowed_roots:
        folder = f"{location.rstrip('/')}/"
        inside = pc.starts_with(paths, folder)
        if pc.any(inside, min_count=0).as_py():
            base = pc.if_else(inside, _encoded(store_access.uri(store, location)), base)
            relative_paths = pc.if_else(inside, pc.utf8_slice_codeunits(paths, len(folder)), relative_paths)
    needs_quoting = pc.match_substring_regex(relative_paths, _NEEDS_QUOTING)
    if pc.any(needs_quoting, min_count=0).as_py():
        quoted = [quote(path, safe="/=") for path in relative_paths.filter(needs_quoting).to_pylist()]
        relative_paths = pc.replace_with_mask(relative_paths, needs_quoting, pa.array(quoted, relative_paths.type))
    return pc.binary_join_element_wise(base, relative_paths, "/")


def _encoded(uri: str) -> str:
    """The URI with its path percent-encoded."""
    host, path = store_access.split_uri(uri)
    return host + quote(path, safe="/=")


def _chunks(lines: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return lines.chunks if isinstance(lines, pa.ChunkedArray) else [lines]


def _text(lines: pa.Array) -> bytes:
    """The lines as one text, separated by line breaks."""
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    data: bytes = joined[0].as_buffer().to_pybytes()
    return data


@cache
def _scratch() -> Path:
    exit_stack = ExitStack()
    atexit.register(exit_stack.close)
    return Path(exit_stack.enter_context(scratch_folder()))
