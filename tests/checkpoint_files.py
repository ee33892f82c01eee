"""Checkpoints of every kind, written by hand from the protocol's text, for tests of readers.

An action is the dictionary of its JSON form. In Parquet a row is a struct with one non-null member.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.store import LocalStore
from tests.log_builder import Action, lines

LOG = "_delta_log"

_STRINGS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_ADD = {
    "path": pa.string(),
    "partitionValues": _STRINGS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "tags": _STRINGS,
    "stats": pa.string(),
    "deletionVector": _VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
_SCHEMA: dict[str, dict[str, pa.DataType]] = {
    "protocol": {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": pa.list_(pa.string()),
        "writerFeatures": pa.list_(pa.string()),
    },
    "metaData": {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": _STRINGS}),
        "schemaString": pa.string(),
        "partitionColumns": pa.list_(pa.string()),
        "createdTime": pa.int64(),
        "configuration": _STRINGS,
    },
    "txn": {"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()},
    "add": _ADD,
    "remove": {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": _STRINGS,
        "size": pa.int64(),
        "deletionVector": _VECTOR,
    },
    "domainMetadata": {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()},
    "checkpointMetadata": {"version": pa.int64(), "tags": _STRINGS},
    "sidecar": {
        "path": pa.string(),
        "sizeInBytes": pa.int64(),
        "modificationTime": pa.int64(),
        "tags": _STRINGS,
    },
}


def parquet(
    actions: Sequence[Action],
    *,
    without: Sequence[str] = (),
    stats_parsed: pa.StructType | None = None,
    partitions_parsed: pa.StructType | None = None,
    row_group: int | None = None,
    statistics: bool = True,
) -> bytes:
    """A Parquet object with these actions.

    Args:
        without: columns to leave out of the file, ``remove`` or ``add.stats``.
        stats_parsed, partitions_parsed: types of the further columns ``add.stats_parsed`` and
            ``add.partitionValues_parsed``.
    """
    members = {name: dict(fields) for name, fields in _SCHEMA.items() if name not in without}
    for key, kind in (("stats_parsed", stats_parsed), ("partitionValues_parsed", partitions_parsed)):
        if kind is not None:
            members["add"][key] = kind
    schema = pa.schema(
        [
            pa.field(name, pa.struct({key: kind for key, kind in fields.items() if f"{name}.{key}" not in without}))
            for name, fields in members.items()
        ]
    )
    rows = pa.Table.from_pylist(
        [{name: _pairs(body, name) for name, body in action.items()} for action in actions], schema
    )
    out = io.BytesIO()
    pq.write_table(rows, out, row_group_size=row_group, write_statistics=statistics)
    return out.getvalue()


def put_classic(store: LocalStore, version: int, actions: Sequence[Action], **more: Any) -> str:
    return _put(store, f"{LOG}/{version:020d}.checkpoint.parquet", parquet(actions, **more))


def put_parts(store: LocalStore, version: int, parts: Sequence[Sequence[Action]]) -> list[str]:
    names = [
        f"{LOG}/{version:020d}.checkpoint.{part:010d}.{len(parts):010d}.parquet" for part in range(1, len(parts) + 1)
    ]
    return [_put(store, name, parquet(actions)) for name, actions in zip(names, parts, strict=True)]


def put_v2(store: LocalStore, version: int, form: str, actions: Sequence[Action]) -> str:
    """Put a UUID-named checkpoint, ``form`` "json" or "parquet"; checkpointMetadata is added."""
    rows = [{"checkpointMetadata": {"version": version}}, *actions]
    data = lines(*rows) if form == "json" else parquet(rows)
    return _put(store, f"{LOG}/{version:020d}.checkpoint.{uuid.uuid4()}.{form}", data)


def put_sidecar(store: LocalStore, actions: Sequence[Action], spelled: str = "{name}", **more: Any) -> Action:
    """Put a sidecar and return the action that names it, with its path as ``spelled``."""
    name = f"{uuid.uuid4()}.parquet"
    data = parquet(actions, without=[other for other in _SCHEMA if other not in ("add", "remove")], **more)
    _put(store, f"{LOG}/_sidecars/{name}", data)
    path = spelled.format(name=name, root=store.root)
    return {"sidecar": {"path": path, "sizeInBytes": len(data), "modificationTime": 1}}


def put_compaction(store: LocalStore, start: int, end: int, actions: Sequence[Action]) -> str:
    return _put(store, f"{LOG}/{start:020d}.{end:020d}.compacted.json", lines(*actions))


def _put(store: LocalStore, path: str, data: bytes) -> str:
    store.put(path, data)
    return path


def _pairs(body: dict[str, Any], name: str) -> dict[str, Any]:
    """Maps as lists of pairs, which Arrow accepts."""
    converted = dict(body)
    for key, kind in _SCHEMA[name].items():
        if pa.types.is_map(kind) and isinstance(converted.get(key), dict):
            converted[key] = list(converted[key].items())
    if name == "metaData":
        converted["format"] = converted["format"] | {"options": list(converted["format"]["options"].items())}
    return converted
