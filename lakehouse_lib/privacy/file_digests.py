"""Digests of data files, taken before a purge so that the record of an erasure identifies the deleted files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakehouse_lib.errors import ObjectNotFoundError
from lakehouse_lib.store import ObjectStore

_PIECE = 1 << 20


@dataclass(frozen=True)
class FileDigest:
    """The size and digest of a file.

    Attributes:
        path: the store path.
        bytes: the size.
        sha256: the digest of the content, as 64 hexadecimal digits.
    """

    path: str
    bytes: int
    sha256: str


def file_digests(store: ObjectStore, paths: Iterable[str]) -> Iterator[FileDigest]:
    """The digest of each file, read in pieces of 1 MiB; a missing file is skipped."""
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
