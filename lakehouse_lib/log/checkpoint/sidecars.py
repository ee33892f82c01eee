"""Sidecars of V2 checkpoints: Parquet files in ``_delta_log/_sidecars`` with the add and remove actions (PROTOCOL.md,
section Sidecar Files)."""

from __future__ import annotations

import io
import uuid
from dataclasses import dataclass
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint.columns import FILES, PLAIN_PATHS, actions_table, write_parquet
from lakehouse_lib.log.checkpoint.part import ParquetPart, open_part, unreadable
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.store import ObjectMeta, ObjectStore

#: The number of files in a full sidecar. If one of them is removed, all other files of the sidecar are written again.
FULL = 50_000


@dataclass(frozen=True)
class Sidecar:
    """A sidecar and the counts of its actions.

    Attributes:
        adds, removes: the number of its add and remove actions.
        stale: whether a later commit changed one of its files.
        expired: whether all of its removes have expired.
    """

    meta: ObjectMeta
    adds: int
    removes: int
    stale: bool = False
    expired: bool = False


def open_sidecar(store: ObjectStore, top: str, path: object, version: int) -> ParquetPart:
    """Open a sidecar. Only its footer is read.

    Args:
        top: the path of the checkpoint object that names the sidecar, for errors.
        path: the path in the ``sidecar`` action.

    Raises:
        LogCorruptedError: the path is not text, or the sidecar is missing or cannot be read.
    """
    if not isinstance(path, str):
        raise unreadable(store, top, version, f"the path of a sidecar is {path!r}")
    # All sidecars are in one folder, so only the file name of the path is used.
    sidecar = f"{file_names.SIDECARS}/{unquote(path).rsplit('/', 1)[-1]}"
    meta = store.head(sidecar)
    if meta is None:
        raise unreadable(store, top, version, f"its sidecar {sidecar} is missing")
    return open_part(store, meta, version)


def put_sidecar(store: ObjectStore, name: str, actions: pa.ChunkedArray) -> Sidecar:
    """Write a sidecar with these actions; ``name`` is ``add`` or ``remove``."""
    sink = io.BytesIO()
    paths = as_array(pc.struct_field(actions, "path"))
    notes = PLAIN_PATHS if canonical(paths, store).equals(paths) else None
    table = actions_table(FILES, name, actions)
    write_parquet(sink, FILES, [table], row_group=FULL, looked_up={f"{name}.path": len(actions)}, notes=notes)
    meta = put_object(store, f"{file_names.SIDECARS}/{uuid.uuid4()}.parquet", sink.getvalue())
    count = len(actions)
    return Sidecar(meta, count, 0) if name == "add" else Sidecar(meta, 0, count)


def put_object(store: ObjectStore, path: str, data: bytes) -> ObjectMeta:
    """Write an object of a checkpoint, and return its metadata (size and modification time)."""
    store.put(path, data)
    # Only the store knows the modification time.
    return store.head(path) or ObjectMeta(path, len(data), 0)


def sidecar_action(meta: ObjectMeta) -> dict[str, object]:
    """The ``sidecar`` action that names a sidecar."""
    return {
        "path": quote(meta.path.rsplit("/", 1)[-1]),
        "sizeInBytes": meta.size,
        "modificationTime": meta.modified,
    }
