"""Cut the text of a CSV file into blocks of whole records, which threads can then parse by themselves.

A record ends at a line break outside quotes. A quote opens a quoted field only at the start of a field, as in pyarrow's
parser. In most files a count of the quotes is enough. If quotes occur inside unquoted fields (``5" pipe``), the quoted
fields of the block are searched one by one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.json_text import excerpt

#: Bytes of text in a block.
BLOCK_SIZE = 8 << 20
#: A file with a longer record is refused. It must be at least twice the size of a block.
LONGEST_RECORD = 16 << 20

NEVER_CLOSED = "a quoted field is never closed"


def record_blocks(
    read: Callable[[int], bytes],
    delimiter: str,
    quote: str,
    comment: str = "",
    *,
    line_breaks: bool = True,
    has_start: bool = True,
) -> Iterator[bytes]:
    """Blocks of whole records, in order, without a byte order mark. Each ends with a line break.

    Args:
        read: returns at most this number of bytes of the text; empty at its end.
        quote: the quote character; empty: fields are never quoted.
        comment: a line that starts with it, outside quotes, is a comment, in which quotes mean nothing; empty: the
            text has no comments.
        line_breaks: whether quoted fields may have line breaks.
        has_start: whether the text is the start of a file, where a byte order mark may be.

    Raises:
        pa.ArrowInvalid: a record is too long, the text ends inside a quoted field, or a field has a line break that is
            not allowed.
    """
    cut_by_quote = quote if line_breaks else ""
    buffer = _fill(read, BLOCK_SIZE)
    if has_start:
        buffer = buffer.removeprefix(codecs.BOM_UTF8)
    least = 1
    while True:
        more = _fill(read, max(least, BLOCK_SIZE - len(buffer)))
        buffer, least = buffer + more, 1
        if not more:
            if buffer:
                if not line_breaks:
                    _check_lines(buffer, delimiter, quote, comment)
                if quote and _Quotes(buffer, delimiter, quote, comment).is_open:
                    raise pa.ArrowInvalid(NEVER_CLOSED)
                # Without a line break at the end, pyarrow reads an empty last field after a quoted one as quoted.
                yield buffer if buffer.endswith((b"\n", b"\r")) else buffer + b"\n"
            return
        end = _end_of_records(buffer, delimiter, cut_by_quote, comment)
        if end:
            if not line_breaks:
                _check_lines(buffer[:end], delimiter, quote, comment)
            yield buffer[:end]
            buffer = buffer[end:]
        elif len(buffer) > LONGEST_RECORD:
            raise pa.ArrowInvalid(f"a record is longer than {LONGEST_RECORD} bytes, or a quoted field is never closed")
        else:
            least = BLOCK_SIZE  # the record is longer than a block; each search for its end reads the whole buffer


def first_record(data: bytes, delimiter: str, quote: str) -> bytes:
    """The first record of a text, with its line break; the whole text if it has only one."""
    for end in re.finditer(rb"\r\n|\n|\r", data):
        record = data[: end.end()]
        if not quote or not _Quotes(record, delimiter, quote).is_open:
            return record
    return data


def without_comments(data: bytes, delimiter: str, quote: str, comment: str) -> tuple[bytes, NDArray[np.int64]]:
    """A block of records without its comments, and for each comment the number of lines that are left before it."""
    if comment.encode() not in data:
        return data, np.zeros(0, np.int64)
    pieces, lines, place, line = [], [], 0, 0
    for part in _fields_and_comments(delimiter, quote, comment).finditer(data):
        if part["comment"] is None:
            continue
        pieces.append(data[place : part.start()])
        line += pieces[-1].count(b"\n")
        lines.append(line)
        place = part.end() + (2 if data[part.end() : part.end() + 2] == b"\r\n" else 1)
    pieces.append(data[place:])
    return b"".join(pieces), np.array(lines, np.int64)


def check_escapes(data: bytes, delimiter: str, quote: str) -> None:
    """Check that no quote inside a quoted field of some records is escaped by a backslash.

    Raises:
        pa.ArrowInvalid: a quoted field ends with a backslash and a quote, and other characters follow.
    """
    # A search for one byte is ten times as fast as one for two bytes, and most texts have no backslash.
    if not quote or b"\\" not in data or b"\\" + quote.encode() not in data:
        return
    array = np.frombuffer(data, np.uint8)
    if _is_regular(array, np.flatnonzero(array == ord(quote)), delimiter, quote):
        return
    ends = (b"", b"\r", b"\n", delimiter.encode())
    for field in _fields_and_comments(delimiter, quote, "").finditer(data):
        place = field.end()
        if field["end"] and data[place - 2 : place - 1] == b"\\" and data[place : place + 1] not in ends:
            text = excerpt(data[field.start() : place + 20].decode("utf-8", "replace"))
            raise pa.ArrowInvalid(
                f"the field {text} has a quote after a backslash; expected doubled quotes inside a quoted field"
            )


def after_lines(read: Callable[[int], bytes], count: int) -> Callable[[int], bytes]:
    """A function that reads a text, but not its first ``count`` lines.

    Raises:
        pa.ArrowInvalid: the text has fewer lines.
    """
    data = b""
    for _ in range(count):
        while (end := data.find(b"\n")) < 0:
            data = read(1 << 16)  # the start of the line is not needed
            if not data:
                raise pa.ArrowInvalid(f"the file has fewer than {count} lines, which are to be skipped")
        data = data[end + 1 :]

    def read_on(size: int) -> bytes:
        nonlocal data
        piece, data = data[:size], data[size:]
        return piece or read(size)

    return read_on


def _fill(read: Callable[[int], bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _end_of_records(data: bytes, delimiter: str, quote: str, comment: str) -> int:
    """The end of the last whole record in ``data``, which starts with a record; 0: it has no whole record."""
    if not quote or quote.encode() not in data:
        return data.rfind(b"\n") + 1 or _end_before_carriage_return(data)
    quotes = _Quotes(data, delimiter, quote, comment)
    return quotes.last_outside(b"\n", len(data)) + 1 or quotes.last_outside(b"\r", len(data) - 1) + 1


def _check_lines(data: bytes, delimiter: str, quote: str, comment: str) -> None:
    """Check that no quoted field of some lines has a line break; raises ``pa.ArrowInvalid``."""
    place = _Quotes(data, delimiter, quote, comment).first_break_inside() if quote and quote.encode() in data else -1
    if place >= 0:
        line = data[max(data.rfind(b"\n", 0, place), data.rfind(b"\r", 0, place)) + 1 : place]
        text = excerpt(line.decode("utf-8", "replace"))
        raise pa.ArrowInvalid(f"the record {text} has a quoted line break; expected none with --no-line-breaks")


def _end_before_carriage_return(data: bytes) -> int:
    """As ``_end_of_records`` for lines that end with ``\\r`` alone. At the end of the data, ``\\n`` may follow it."""
    return data.rfind(b"\r", 0, len(data) - 1) + 1


class _Quotes:
    """The quoted fields of a text that starts with a record."""

    def __init__(self, data: bytes, delimiter: str, quote: str, comment: str = "") -> None:
        self._data = data
        array = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(array == ord(quote))
        has_comments = bool(comment) and comment.encode() in data
        if not has_comments and _is_regular(array, places, delimiter, quote):
            self._places = places
        else:
            self._places = _places_of_fields(data, delimiter, quote, comment)

    @property
    def is_open(self) -> bool:
        """Whether the text ends inside a quoted field."""
        return len(self._places) % 2 == 1

    def first_break_inside(self) -> int:
        """The place of the first line break in a quoted field; -1: there is none."""
        text = np.frombuffer(self._data, np.uint8)
        breaks = np.flatnonzero((text == ord("\n")) | (text == ord("\r")))
        inside = breaks[np.searchsorted(self._places, breaks) % 2 == 1]
        return int(inside[0]) if len(inside) else -1

    def last_outside(self, byte: bytes, end: int) -> int:
        """The place of the last ``byte`` before ``end`` that is outside quoted fields; -1: there is none."""
        while (place := self._data.rfind(byte, 0, end)) >= 0:
            before = int(np.searchsorted(self._places, place))
            if before % 2 == 0:
                return place
            end = int(self._places[before - 1])
        return -1


def _is_regular(array: Any, places: Any, delimiter: str, quote: str) -> bool:
    """Whether the quotes alternately open and close a quoted part, so that counting them is exact.

    A doubled quote inside a field is the end of a part and the start of the next one.
    """
    opening, closing = places[0::2], places[1::2]
    ends = np.zeros(256, bool)
    ends[[ord(delimiter), ord(quote), ord("\r"), ord("\n")]] = True
    before = opening[opening > 0] - 1
    after = closing[closing < len(array) - 1] + 1
    return bool(ends[array[before]].all() and ends[array[after]].all())


def _places_of_fields(data: bytes, delimiter: str, quote: str, comment: str) -> Any:
    """The places of the first and the last quote of each quoted field, found field by field."""
    places: list[int] = []
    for field in _fields_and_comments(delimiter, quote, comment).finditer(data):
        if field["comment"] is None:
            places.append(field.start())
            if field["end"]:
                places.append(field.end() - 1)
    return np.array(places, np.int64)


def _fields_and_comments(delimiter: str, quote: str, comment: str) -> re.Pattern[bytes]:
    """Matches each quoted field, and each comment up to its line break."""
    # Without a comment sign, a pattern that matches no text takes its place.
    line = rb"(?P<comment>(?<![^\r\n])%b[^\r\n]*)" % re.escape(comment.encode()) if comment else rb"(?P<comment>(?!))"
    if not quote:
        return re.compile(line)
    start, mark = re.escape(delimiter.encode()), re.escape(quote.encode())
    field = rb"(?<![^%b\r\n])%b(?:[^%b]|%b%b)*+(?P<end>%b?)" % (start, mark, mark, mark, mark, mark)
    return re.compile(line + b"|" + field)
