"""Cut the text of a CSV file into blocks of whole records, which threads can then parse by themselves.

A record ends at a line break outside quotes. A quote opens a quoted field only at the start of a field, as in pyarrow's
parser. In most files a count of the quotes is enough. If quotes occur inside other fields (``5" pipe``), the quoted
fields of the block are searched one by one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

#: Bytes of text in a block.
BLOCK_SIZE = 8 << 20
#: A longer record rejects its file. The smallest limit of a reader that reads blocks is twice the block.
LONGEST_RECORD = 16 << 20

NEVER_CLOSED = "a quoted field is never closed"


def record_blocks(read: Callable[[int], bytes], delimiter: str, quote: str) -> Iterator[bytes]:
    """Blocks of whole records, in order, without a byte order mark. Each ends with a line break.

    Args:
        read: returns at most so many bytes of the text; empty at its end.
        quote: the quote character; empty: fields are never quoted.

    Raises:
        pa.ArrowInvalid: a record is too long, or the text ends inside a quoted field.
    """
    buffer = _fill(read, BLOCK_SIZE).removeprefix(codecs.BOM_UTF8)
    while True:
        more = _fill(read, max(1, BLOCK_SIZE - len(buffer)))
        buffer += more
        if not more:
            if buffer:
                if quote and _Quotes(buffer, delimiter, quote).is_open:
                    raise pa.ArrowInvalid(NEVER_CLOSED)
                # Without it, pyarrow takes an empty last field for a quoted one if a quoted field precedes it.
                yield buffer if buffer.endswith((b"\n", b"\r")) else buffer + b"\n"
            return
        end = _end_of_records(buffer, delimiter, quote)
        if end:
            yield buffer[:end]
            buffer = buffer[end:]
        elif len(buffer) > LONGEST_RECORD:
            raise pa.ArrowInvalid(f"a record is longer than {LONGEST_RECORD} bytes, or a quoted field is never closed")


def first_record(data: bytes, delimiter: str, quote: str) -> bytes:
    """The first record of a text, with its line break; the whole text if it has only one."""
    for end in re.finditer(rb"\r\n|\n|\r", data):
        record = data[: end.end()]
        if not quote or not _Quotes(record, delimiter, quote).is_open:
            return record
    return data


def _fill(read: Callable[[int], bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _end_of_records(data: bytes, delimiter: str, quote: str) -> int:
    """The end of the last whole record in ``data``, which starts with a record; 0: it has no whole record."""
    if not quote or quote.encode() not in data:
        return data.rfind(b"\n") + 1 or _end_before_carriage_return(data)
    quotes = _Quotes(data, delimiter, quote)
    return quotes.last_outside(b"\n", len(data)) + 1 or quotes.last_outside(b"\r", len(data) - 1) + 1


def _end_before_carriage_return(data: bytes) -> int:
    """As ``_end_of_records`` for lines that end with ``\\r`` alone. At the end of the data, ``\\n`` may follow it."""
    return data.rfind(b"\r", 0, len(data) - 1) + 1


class _Quotes:
    """The quoted fields of a text that starts with a record."""

    def __init__(self, data: bytes, delimiter: str, quote: str) -> None:
        self._data = data
        array = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(array == ord(quote))
        if _is_regular(array, places, delimiter, quote):
            self._places = places
        else:
            self._places = _places_of_fields(data, delimiter, quote)

    @property
    def is_open(self) -> bool:
        """Whether the text ends inside a quoted field."""
        return len(self._places) % 2 == 1

    def last_outside(self, byte: bytes, end: int) -> int:
        """The place of the last ``byte`` before ``end`` that is outside of quoted fields; -1: none."""
        while (place := self._data.rfind(byte, 0, end)) >= 0:
            before = int(np.searchsorted(self._places, place))
            if before % 2 == 0:
                return place
            end = int(self._places[before - 1])
        return -1


def _is_regular(array: Any, places: Any, delimiter: str, quote: str) -> bool:
    """Whether the quotes are in turn the first and the last of a quoted part, so that counting them is exact.

    A doubled quote inside a field is the end of a part and the start of the next one.
    """
    opening, closing = places[0::2], places[1::2]
    ends = np.zeros(256, bool)
    ends[[ord(delimiter), ord(quote), ord("\r"), ord("\n")]] = True
    before = opening[opening > 0] - 1
    after = closing[closing < len(array) - 1] + 1
    return bool(ends[array[before]].all() and ends[array[after]].all())


def _places_of_fields(data: bytes, delimiter: str, quote: str) -> Any:
    """The places of the first and the last quote of each quoted field, found field by field."""
    start, mark = re.escape(delimiter.encode()), re.escape(quote.encode())
    fields = re.compile(rb"(?<![^%b\r\n])%b(?:[^%b]|%b%b)*+(%b?)" % (start, mark, mark, mark, mark, mark))
    places: list[int] = []
    for field in fields.finditer(data):
        places.append(field.start())
        if field[1]:
            places.append(field.end() - 1)
    return np.array(places, np.int64)
