"""Compressed source files: gzip, bzip2 and zstd, known by the end of their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakehouse_lib.ingestion.landing import LandedFile

#: The end of a name -> the codec of Arrow.
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BUFFER = 1 << 20
#: The first bytes of files that are not text.
_BINARY = {
    b"Obj\x01": "an Avro file",
    b"PK\x03\x04": "a zip archive, as Excel writes",
    b"\x1f\x8b\x08": "a gzip file without .gz",
    b"BZh91AY&SY": "a bzip2 file without .bz2",
    b"\x28\xb5\x2f\xfd": "a zstd file without .zst",
}


def codec_of(name: str) -> str | None:
    """The codec of a file with this name; None: it is not compressed."""
    return next((codec for suffix, codec in CODECS.items() if name.endswith(suffix)), None)


@contextmanager
def open_content(source_file: LandedFile) -> Iterator[pa.NativeFile]:
    """The text of a file, decompressed while it is read.

    Reading raises ``OSError`` if a compressed file is truncated or damaged, or if other bytes follow it.

    Raises:
        OSError: the file is not text, and its name does not end as that of a compressed file.
    """
    codec = codec_of(source_file.name)
    with source_file.open() as stored:
        if codec is None:
            _check_text(stored)
        with pa.input_stream(stored, compression=codec, buffer_size=_BUFFER) as content:
            yield content


def _check_text(stored: pa.NativeFile) -> None:
    start = stored.read(max(map(len, _BINARY)))
    stored.seek(0)
    kind = next((kind for first, kind in _BINARY.items() if start.startswith(first)), None)
    if kind is not None:
        raise OSError(f"it is {kind}")
