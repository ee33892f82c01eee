"""Cut the text of a JSON array into blocks of whole elements, an element a line, in bounded memory.

The brackets outside strings are counted, so that an element may have any line breaks and any depth. Whether an element
is valid JSON is decided by the reader of JSON lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Bytes of text in a block; an element cannot be longer than ``LONGEST_ELEMENT``.
BLOCK_SIZE = 4 << 20
LONGEST_ELEMENT = 16 << 20
_BLANK = b" \t\r\n"
#: The character that replaces a line break inside a string. JSON forbids both there, so the element stays invalid.
_FORBIDDEN = 1


@dataclass(frozen=True)
class ArrayBlock:
    """Elements of an array.

    Attributes:
        lines: the elements, a line for each.
        starts: the line of the file on which each element starts, from 0 at the block's start.
        line_count: the lines of the file that the block takes.
    """

    lines: bytes
    starts: NDArray[np.int64]
    line_count: int


def array_blocks(read: Callable[[int], bytes]) -> Iterator[ArrayBlock]:
    """The elements of an array in blocks, in order.

    Args:
        read: returns at most this number of bytes of the text in UTF-8; empty at its end.

    Raises:
        pa.ArrowInvalid: the text is not an array, is truncated, or has an element that is empty or too long.
    """
    data, before = _opened(read)
    is_first = True
    while True:
        text = _Structure(data)
        end, last = text.end, text.last_separator
        if end is None and last is None:
            if len(data) > LONGEST_ELEMENT:
                raise pa.ArrowInvalid(f"an element is longer than {LONGEST_ELEMENT} bytes, or is never closed")
            more = read(max(BLOCK_SIZE, len(data)))
            if not more:
                raise pa.ArrowInvalid("the array is never closed")
            data += more
            continue
        stop = last if end is None else end
        assert stop is not None
        if end is None or not is_first or data[:stop].strip(_BLANK):
            yield text.block(stop, before)
        if end is not None:
            _check_end(data[end + 1 :], read)
            return
        data, before, is_first = data[stop + 1 :], 0, False


def _opened(read: Callable[[int], bytes]) -> tuple[bytes, int]:
    """The first text after the opening bracket, and the number of line breaks before it."""
    breaks = 0
    while data := read(BLOCK_SIZE):
        text = data.lstrip(_BLANK)
        breaks += data[: len(data) - len(text)].count(b"\n")
        if text:
            if not text.startswith(b"["):
                raise pa.ArrowInvalid("the text does not begin with [")
            return text[1:], breaks
    raise pa.ArrowInvalid("the file is empty")


def _check_end(text: bytes, read: Callable[[int], bytes]) -> None:
    while not text.strip(_BLANK):
        text = read(BLOCK_SIZE)
        if not text:
            return
    raise pa.ArrowInvalid("text follows the end of the array")


class _Structure:
    """The brackets, commas and strings of a text that starts with an element of the array."""

    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        self._quotes = _quotes(self._bytes)
        kinds = _KINDS[self._bytes]
        self._places = self._outside(np.flatnonzero(kinds))
        kinds = kinds[self._places]
        self._depths = np.cumsum(np.where(kinds == _COMMA, 0, kinds), dtype=np.int64)
        ends = self._places[self._depths < 0]
        self.end: int | None = int(ends[0]) if len(ends) else None
        separators = self._places[(kinds == _COMMA) & (self._depths == 0)]
        self._separators = separators if self.end is None else separators[separators < self.end]
        self.last_separator: int | None = int(self._separators[-1]) if len(self._separators) else None

    def block(self, stop: int, before: int) -> ArrayBlock:
        """The elements before a place; ``before`` line breaks precede the text."""
        text = self._bytes[:stop].copy()
        breaks = np.flatnonzero(text == _LINE_END)
        blanks = np.flatnonzero(_IS_BLANK[text])
        outside = self._outside(blanks)
        text[blanks] = np.where(text[blanks] == _LINE_END, _FORBIDDEN, text[blanks])
        text[outside] = ord(" ")
        text[self._separators[self._separators < stop]] = _LINE_END
        depths = np.concatenate([[0], self._depths])[np.searchsorted(self._places, outside)]
        keep = np.ones(stop, bool)
        keep[outside[depths == 0]] = False
        places = np.flatnonzero(keep)
        text = text[places]
        starts = np.concatenate([[0], np.flatnonzero(text == _LINE_END) + 1])
        ends = np.concatenate([starts[1:] - 1, [len(text)]])
        if (starts == ends).any():
            raise pa.ArrowInvalid("an element is empty")
        lines = np.searchsorted(breaks, places[starts]) + before
        return ArrayBlock(text.tobytes() + b"\n", lines.astype(np.int64), len(breaks) + before)

    def _outside(self, places: Any) -> Any:
        """The places that are not inside a string."""
        return places[np.searchsorted(self._quotes, places) % 2 == 0]


def _quotes(text: NDArray[np.uint8]) -> Any:
    """The places of the quotes that begin or end a string: an odd number of backslashes precedes each of the others."""
    quotes = np.flatnonzero(text == ord('"'))
    is_escape = text == ord("\\")
    if not is_escape.any():
        return quotes
    numbers = np.arange(len(text))
    plain = np.maximum.accumulate(np.where(is_escape, -1, numbers))  # the last place that has no backslash
    before = np.where(quotes > 0, plain[quotes - 1], -1)
    return quotes[(quotes - 1 - before) % 2 == 0]


_LINE_END = ord("\n")
_COMMA = 2
_KINDS = np.zeros(256, np.int8)
_KINDS[[ord("["), ord("{")]] = 1
_KINDS[[ord("]"), ord("}")]] = -1
_KINDS[ord(",")] = _COMMA
_IS_BLANK = np.zeros(256, bool)
_IS_BLANK[list(_BLANK)] = True
