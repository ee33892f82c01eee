"""``_last_checkpoint``, the checkpoint hint: the version at which a listing of the log starts. A hint that is missing,
stale, truncated or wrong is not an error.

PROTOCOL.md, sections Last Checkpoint File and Last Checkpoint File Schema. The hint of a V2 checkpoint has the field
``v2Checkpoint``, as in delta-spark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lakehouse_lib.errors import ObjectNotFoundError, StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import ObjectMeta, ObjectStore

_ATTEMPTS = 10


@dataclass(frozen=True)
class LastCheckpoint:
    """The fields of ``_last_checkpoint``.

    Attributes:
        size: the number of actions, including those in sidecars.
        size_in_bytes: the size of the checkpoint's objects, including sidecars.
        num_of_add_files: the number of add actions, including those in sidecars.
        top: the main object of a V2 checkpoint, which names the sidecars; None: a classic checkpoint.
    """

    version: int
    size: int
    size_in_bytes: int
    num_of_add_files: int
    top: ObjectMeta | None = None

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "version": self.version,
            "size": self.size,
            "sizeInBytes": self.size_in_bytes,
            "numOfAddFiles": self.num_of_add_files,
        }
        if self.top is not None:
            name = self.top.path.rsplit("/", 1)[-1]
            body["v2Checkpoint"] = {
                "path": name,
                "sizeInBytes": self.top.size,
                "modificationTime": self.top.modified,
            }
        return body


def read_hint(store: ObjectStore) -> int | None:
    """The version in the hint, or None if the hint is missing or cannot be read."""
    try:
        return _version(store.read(file_names.LAST_CHECKPOINT))
    except StoreError:
        return None


def write_hint(store: ObjectStore, hint: LastCheckpoint) -> None:
    """Write the hint for a newer checkpoint; an existing hint for this version or a later version is kept.

    If other writers replace the hint before each of ten attempts, it is not written.
    """
    text = json.dumps(hint.to_json())
    body = json.dumps(hint.to_json() | {"checksum": checksum(text)}).encode()
    for _ in range(_ATTEMPTS):
        try:
            current = store.read(file_names.LAST_CHECKPOINT)
        except ObjectNotFoundError:
            current = None
        current_version = _version(current) if current is not None else None
        if current_version is not None and current_version >= hint.version:
            return
        if store.put_if_match(file_names.LAST_CHECKPOINT, body, current):
            return


def checksum(text: str | bytes) -> str:
    """The MD5 of a JSON object's canonical form (PROTOCOL.md, section JSON checksum), without its own ``checksum``.

    Raises:
        ValueError: the text is not a JSON object, or has a key twice.
    """
    body = json.loads(text, object_pairs_hook=_distinct, parse_int=_Number, parse_float=_Number)
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")
    leaves = {path: value for path, value in _leaves(body) if path != b'"checksum"'}
    form = b",".join(path + b"=" + leaves[path] for path in sorted(leaves))
    return hashlib.md5(form, usedforsecurity=False).hexdigest()


class _Number(str):
    """A number as it is spelled in the JSON."""

    __slots__ = ()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("it has a key twice")
    return dict(pairs)


def _leaves(value: Any, path: tuple[bytes, ...] = ()) -> Iterator[tuple[bytes, bytes]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, _quoted(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, b"%d" % number))
    elif isinstance(value, _Number):
        yield b"+".join(path), value.encode()
    elif isinstance(value, str):
        yield b"+".join(path), _quoted(value)
    else:
        yield b"+".join(path), {True: b"true", False: b"false", None: b"null"}[value]


def _quoted(text: str) -> bytes:
    return f'"{quote(text, safe="-._~")}"'.encode()


def _version(data: bytes) -> int | None:
    """The version of a hint; None if the hint cannot be read, or contradicts its own checksum."""
    try:
        body = json.loads(data)
        version = body["version"]
        if body.get("checksum") not in (None, checksum(data) if "checksum" in body else None):
            return None
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return None
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 0 else None
