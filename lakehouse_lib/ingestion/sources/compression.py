"""Compressed source files: gzip, bzip2 and zstd, known by the end of their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakehouse_lib.ingestion.landing import LandedFile

#: The end of a name -> the codec of Arrow.
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BUFFER = 1 << 20


def codec_of(name: str) -> str | None:
    """The codec of a file with this name; None: it is not compressed."""
    return next((codec for suffix, codec in CODECS.items() if name.endswith(suffix)), None)


@contextmanager
def open_content(source_file: LandedFile) -> Iterator[pa.NativeFile]:
    """The content of a file, decompressed while it is read.

    Reading raises ``OSError`` if a compressed file is truncated or damaged, or if other bytes follow it.
    """
    with (
        source_file.open() as stored,
        pa.input_stream(stored, compression=codec_of(source_file.name), buffer_size=_BUFFER) as content,
    ):
        yield content
