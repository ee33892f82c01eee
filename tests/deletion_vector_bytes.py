"""Deletion vectors made byte by byte from the protocol's text, and commits that give them to files."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from tests.log_builder import protocol, put, remove

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    assert len(data) % 4 == 0
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        group = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            group = _Z85[digit] + group
        text += group
    return text


def from_z85(text: str) -> bytes:
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        data += number.to_bytes(4, "big")
    return data


def vector_data(positions: Iterable[int]) -> bytes:
    return struct.pack("<I", 1681511377) + BitMap64(positions).serialize()


def inline(positions: Iterable[int]) -> dict[str, Any]:
    positions = list(positions)
    data = vector_data(positions)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(data + b"\0" * (-len(data) % 4)),
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


def in_file(root: Path, *vectors: Iterable[int], prefix: str = "", absolute: bool = False) -> list[dict[str, Any]]:
    """Write one file with all of the vectors, and return a descriptor for each."""
    name = uuid.uuid4()
    path = root / prefix / f"deletion_vector_{name}.bin"
    path.parent.mkdir(exist_ok=True, parents=True)
    body, descriptors = b"\x01", []
    for positions in map(list, vectors):
        data = vector_data(positions)
        descriptors.append(
            {
                "storageType": "p" if absolute else "u",
                "pathOrInlineDv": path.as_uri() if absolute else prefix + z85(name.bytes),
                "offset": len(body),
                "sizeInBytes": len(data),
                "cardinality": len(positions),
            }
        )
        body += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path.write_bytes(body)
    return descriptors


def delete_by_vector(root: Path, vectors: Mapping[str, dict[str, Any]]) -> int:
    """Commit these vectors for these files (log paths) of a table, as another writer's DELETE; returns the version."""
    log = root / "_delta_log"
    commits = sorted(log.glob("0*.json"))
    version = len(commits)
    adds: dict[str, dict[str, Any]] = {}
    versions: dict[str, Any] = {}
    for line in (text for commit in commits for text in commit.read_text().splitlines()):
        action = json.loads(line)
        versions = action.get("protocol", versions)
        if "add" in action:
            adds[action["add"]["path"]] = action["add"]
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "DELETE"}}]
    features = set(versions.get("readerFeatures") or ())
    if "deletionVectors" not in features:
        writers = set(versions.get("writerFeatures") or ())
        readers = features | {"deletionVectors"}
        actions.append(protocol(*readers, writer=writers - readers))
    for path, descriptor in vectors.items():
        old = adds[path]
        removed = {
            key: old[key] for key in ("path", "partitionValues", "size", "deletionVector") if old.get(key) is not None
        }
        actions.append(remove(**removed, extendedFileMetadata=True))
        stats = {**json.loads(old["stats"]), "tightBounds": False} if old.get("stats") else None
        added = {**old, "deletionVector": descriptor, "dataChange": True}
        actions.append({"add": {**added, "stats": json.dumps(stats)} if stats else added})
    put(root, version, *actions)
    return version
