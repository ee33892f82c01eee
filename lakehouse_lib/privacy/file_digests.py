"""Digests of data files before they are purged, so that a record can say which files these were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakehouse_lib.errors import ObjectNotFoundError
from lakehouse_lib.store import ObjectStore

_PIECE = 1 << 20


@dataclass(frozen=True)
class FileDigest:
    """The size and digest of one file.

    Attributes:
        path: as in the store.
        bytes: how many it holds.
        sha256: of its content, as 64 hexadecimal digits.
    """

    path: str
    bytes: int
    sha256: str


def file_digests(store: ObjectStore, paths: Iterable[str]) -> Iterator[FileDigest]:
    """The digest of each file, which is read once, 1 MiB at a time; a missing file is skipped."""
    for path in paths:
        total, content = 0, hashlib.sha256()
        try:
            with store.open_input(path) as source:
                while piece := source.read(_PIECE):
                    total += len(piece)
                    content.update(piece)
        except ObjectNotFoundError:
            continue
        yield FileDigest(path, total, content.hexdigest())
