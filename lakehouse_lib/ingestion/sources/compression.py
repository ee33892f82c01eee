"""Read the text of a source file, decompressed (gzip, bzip2 or zstd, by the end of its name), or of a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import LandedFile

#: The end of a name -> the codec of Arrow.
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BUFFER = 1 << 20
#: Bytes in which the end of a line is searched.
_PIECE = 64 << 10
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
    """Open the text of a file or of its part. A compressed file is decompressed while it is read.

    Reading raises ``OSError`` if a compressed file is truncated or damaged, or if other bytes follow it.

    Raises:
        OSError: the file is not text, and its name does not end as that of a compressed file.
    """
    codec = codec_of(source_file.name)
    with source_file.open() as stored:
        if codec is None:
            _check_text(stored)
        if source_file.part is not None:
            stored = _lines_of(stored, source_file.part)
        with pa.input_stream(stored, compression=codec, buffer_size=_BUFFER) as content:
            yield content


def _check_text(stored: pa.NativeFile) -> None:
    start = stored.read(max(map(len, _BINARY)))
    stored.seek(0)
    kind = next((kind for first, kind in _BINARY.items() if start.startswith(first)), None)
    if kind is not None:
        raise OSError(f"it is {kind}")


def _lines_of(stored: pa.NativeFile, part: FilePart) -> pa.NativeFile:
    """The lines of a file that start in the range of a part."""
    begin = _line_start(stored, part.begin, part.end)
    end = begin if begin >= part.end else _line_start(stored, part.end, stored.size())
    return stored.get_stream(begin, end - begin)


def _line_start(stored: pa.NativeFile, place: int, limit: int) -> int:
    """The start of the first line that starts at or after a place; ``limit`` if none starts before it."""
    if not place:
        return 0
    place -= 1  # the break before a line that starts at the place
    stored.seek(place)
    while data := stored.read(min(_PIECE, limit - 1 - place)):
        line_end: int = data.find(b"\n")
        if line_end >= 0:
            return place + line_end + 1
        place += len(data)
    return limit
