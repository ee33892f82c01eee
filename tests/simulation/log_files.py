"""The content of the log's files, read by a few lines of the simulation instead of the code under test."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

_COLUMNS = (
    "add.path",
    "add.baseRowId",
    "remove.path",
    "remove.deletionTimestamp",
    "txn.appId",
    "txn.version",
    "domainMetadata.configuration",
    "sidecar.path",
)


@dataclass
class Contents:
    """A checkpoint's files, tombstones (path -> deletionTimestamp), applications and sidecars, the first row id of each
    file with row ids, and the high water mark.
    """

    files: set[str] = field(default_factory=set)
    tombstones: dict[str, int] = field(default_factory=dict)
    applications: dict[str, int] = field(default_factory=dict)
    sidecars: set[str] = field(default_factory=set)
    ids: dict[str, int] = field(default_factory=dict)
    highest: int = -1


def actions_of(data: bytes) -> dict[str, list[Any]]:
    """The bodies of a commit's actions by their names."""
    bodies: dict[str, list[Any]] = {}
    for line in data.splitlines():
        for kind, body in json.loads(line).items():
            bodies.setdefault(kind, []).append(body)
    return bodies


def checkpoint_of(path: str, data: bytes, sidecar: Callable[[str], bytes]) -> Contents:
    """The content of a checkpoint, with its sidecars."""
    contents = Contents()
    _collect(contents, path, data)
    for name in sorted(contents.sidecars):
        _collect(contents, name, sidecar(name.rsplit("/", 1)[-1]))
    return contents


def _collect(contents: Contents, path: str, data: bytes) -> None:
    if path.endswith(".json"):
        rows: list[Mapping[str, Any]] = [json.loads(line) for line in data.splitlines()]
    else:
        file = pq.ParquetFile(io.BytesIO(data))
        columns = {".".join(file.schema.column(number).path.split(".")[:2]) for number in range(len(file.schema))}
        rows = file.read(columns=[name for name in _COLUMNS if name in columns]).to_pylist()
    for row in rows:
        if (add := row.get("add")) and add.get("path"):
            contents.files.add(add["path"])
            if add.get("baseRowId") is not None:
                contents.ids[add["path"]] = add["baseRowId"]
        if (remove := row.get("remove")) and remove.get("path"):
            contents.tombstones[remove["path"]] = remove.get("deletionTimestamp") or 0
        if (txn := row.get("txn")) and txn.get("appId"):
            contents.applications[txn["appId"]] = txn["version"]
        if (domain := row.get("domainMetadata")) and domain.get("configuration"):
            contents.highest = json.loads(domain["configuration"])["rowIdHighWaterMark"]
        if (sidecar := row.get("sidecar")) and sidecar.get("path"):
            contents.sidecars.add(sidecar["path"])
