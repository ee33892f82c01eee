"""The interface of a landing folder: list its files, find one, take its fingerprint, read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Protocol

import pyarrow as pa

from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing.content import Content, unreadable

#: A listing: a row for each file. ``size`` in bytes, ``modified`` in ms since the epoch, ``tag`` as in ``SourceFile``.
LISTING = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("tag", pa.string(), nullable=False),
    ]
)

NO_FILES = pa.Table.from_batches([], LISTING)  # empty_table() would import pandas

#: The prefix of the digest of an object. The rest of the digest is the object's ETag.
ETAG = "etag:"


@dataclass(frozen=True)
class SourceFile:
    """A file of a landing folder.

    Attributes:
        name: its path below the landing folder.
        size: in bytes.
        modified: ms since the epoch.
        tag: the ETag of an object's content; "" in a local folder.
    """

    name: str
    size: int
    modified: int
    tag: str = ""


@dataclass(frozen=True)
class Fingerprint:
    """The identity of a source file's content.

    Attributes:
        digest: the BLAKE2b of the whole content, in hexadecimal; for an object ``etag:`` and its ETag.
    """

    name: str
    size: int
    modified: int
    digest: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Fingerprint:
        return cls(str(value["name"]), int(str(value["size"])), int(str(value["modified"])), str(value["digest"]))

    @property
    def tag(self) -> str:
        """The ETag of an object; "" for a file of a local folder."""
        return self.digest.removeprefix(ETAG) if self.digest.startswith(ETAG) else ""

    def is_unchanged(self, file: SourceFile) -> bool:
        """Whether the listing shows no change: the same ETag, or without ETags the same size and modification time."""
        if file.tag and self.tag:
            return self.tag == file.tag
        return self.size == file.size and self.modified == file.modified


class Landing(Protocol):
    """A landing folder. Implementations are picklable, because tasks on a cluster contain them.

    Names are paths below the folder, separated by ``/``. A name is left out of every listing if it does not match the
    source's pattern, or if one of its parts starts with ``.`` or ``_`` or ends with ``.tmp``, because writers give such
    names to unfinished files. Every method raises ``LandingError`` if the folder itself cannot be used, and
    ``StoreError`` if its object store fails.
    """

    @property
    def location(self) -> str:
        """The folder, for messages."""

    @property
    def is_remote(self) -> bool:
        """Whether requests use a network, so that concurrent requests are faster."""

    def files(self, after: str = "") -> Iterator[pa.Table]:
        """The files with names after ``after``, as tables of ``LISTING``, sorted by name (by the bytes of UTF-8).

        The listing continues while the tables are consumed. A table has fewer than 32,768 rows.
        """

    def find(self, name: str) -> SourceFile | None:
        """A file as it is now; None if it does not exist."""

    def fingerprint(self, file: SourceFile) -> Fingerprint | None:
        """The fingerprint of a listed file; None if it has changed since, or was deleted.

        Raises:
            SourceRefusedError: the file is listed, but cannot be read.
        """

    def open(self, file: Fingerprint) -> pa.NativeFile:
        """Open a file for random access.

        If the file has changed, this method or a later read may raise ``OSError``, or may return other bytes. So call
        ``is_changed`` after the last read.
        """


@dataclass(frozen=True)
class LandedFile:
    """A file of a landing folder, which a reader of source files opens.

    Attributes:
        part: the part that is read; None: the whole file.
        on_read: called with the number of bytes of each read; None: reads are not counted.
    """

    landing: Landing
    file: Fingerprint
    part: FilePart | None = None
    on_read: Callable[[int], object] | None = None

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def has_start(self) -> bool:
        """Whether the start of the file is read, where a byte order mark, skipped lines and a header are."""
        return self.part is None or not self.part.begin

    def has_chunk(self, chunk: int, count: int) -> bool:
        """Whether the row group or stripe ``chunk`` of ``count`` in the file is read."""
        return self.part is None or self.part.has_chunk(chunk, count, self.file.size)

    @contextmanager
    def open(self) -> Iterator[pa.NativeFile]:
        """Open the file for random access.

        Raises:
            LandingError: the file cannot be opened or read. If it has changed, this may be the reason.
            StoreError: the object store fails.
            OSError: only from pyarrow, about the content.
        """
        try:
            opened = self.landing.open(self.file)
        except OSError as error:
            raise unreadable(self.name, error) from error
        content = Content(self.name, opened, self.on_read)
        with pa.PythonFile(content, "r") as source:
            try:
                yield source
            except Exception as error:
                if content.error is None or content.error is error:
                    raise
                raise content.error from error

    def is_changed(self) -> bool:
        return is_changed(self.landing, self.file)


def is_changed(landing: Landing, file: Fingerprint) -> bool:
    """Whether a file differs from its fingerprint, or does not exist any more."""
    now = landing.find(file.name)
    return now is None or not file.is_unchanged(now)
