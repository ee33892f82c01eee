"""Logs made by hand, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.engine.base import Engine
from tests.log_builder import Action, data_file, field, lines, metadata, protocol, remove
from tests.peers import read_engine
from tests.table_builder import longs

MODIFIED = 1_700_000_000_000

UUIDS = ["80a083e8-7026-4e79-81be-64bd76c43a11", "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"]


def put_named(root: Path, name: str, actions: Sequence[Action]) -> None:
    """Put a log object that is not a commit."""
    file = root / "_delta_log" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lines(*actions))


def removal(added: Mapping[str, Any], path: str | None = None) -> Action:
    """The remove of a file with its deletion vector, optionally under another path."""
    vector = {name: added[name] for name in ("deletionVector",) if name in added}
    return remove(path or added["path"], deletionTimestamp=MODIFIED, **vector)


def ids(root: Path, path: str, *values: int | None, log_path: str | None = None, **how: Any) -> dict[str, Any]:
    return data_file(root, path, longs(id=values), log_path, **how)


def read(root: Path, engine: Engine, version: int | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_engine(engine, root, version=version).to_pylist()
    return rows


def ids_of(root: Path, engine: Engine, version: int | None = None) -> list[int | None]:
    return [row["id"] for row in read(root, engine, version)]


PATH = pa.field("path", pa.string())

ADD = pa.struct(
    [
        PATH,
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)

STRINGS = pa.list_(pa.string())

PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", STRINGS),
        ("writerFeatures", STRINGS),
    ]
)

METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
        ("schemaString", pa.string()),
        ("partitionColumns", STRINGS),
        ("configuration", pa.map_(pa.string(), pa.string())),
    ]
)

SIDECAR = pa.struct([PATH, ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])

CHECKPOINT_METADATA = pa.struct([("version", pa.int64())])


def parquet(root: Path, name: str, actions: Sequence[Action], **kinds: pa.DataType) -> Path:
    """A checkpoint's Parquet file with exactly these columns, one action in each row."""
    columns = {
        kind: pa.array([_maps(action.get(kind), struct_type) for action in actions], struct_type)
        for kind, struct_type in kinds.items()
    }
    file = root / "_delta_log" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
    return file


def _maps(value: Any, kind: pa.DataType) -> Any:
    """Maps as lists of pairs, because Arrow does not accept dicts."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {member.name: _maps(value.get(member.name), member.type) for member in kind}
    return list(value.items()) if pa.types.is_map(kind) else value


def head(*features: str) -> list[Action]:
    return [protocol(*features), metadata(field("id", "long"))]
