"""Detection of texts that occur more than once in a long column, without a hash table of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, literal

_WORD = 8
#: Words of eight bytes that are hashed, from the end of a text, where file names differ.
_WORDS = 8
#: Odd numbers, so that no bit of a word is lost. They are powers and not random, because importing numpy.random takes
#: 20 ms.
_WEIGHTS = np.multiply.accumulate(np.full(_WORDS, 0x9E3779B97F4A7C15, np.uint64))


def fingerprints(texts: pa.Array) -> NDArray[np.uint64]:
    """A number for each text: equal for equal texts, and almost always different for different texts.

    It is computed from a text's length and its last 64 bytes. A million paths take a twentieth of a second.

    Args:
        texts: a string column without nulls.
    """
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offsets, data = texts.buffers()
    offsets = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    lengths, ends = np.diff(offsets), offsets[1:]
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if len(text) < _WORD:
        text = np.concatenate([text, np.zeros(_WORD, np.uint8)])
    # The eight bytes at every position as a number; nothing is copied.
    words = np.ndarray((len(text) - _WORD + 1,), "<u8", text, strides=(1,))
    are_long = int(lengths.min()) >= _WORDS * _WORD and int(ends[0]) >= _WORDS * _WORD
    numbers = lengths.astype(np.uint64)
    for number, weight in enumerate(_WEIGHTS):
        starts = ends - _WORD * (number + 1)
        word = words[starts] if are_long else _cut(words, starts, lengths - _WORD * number)
        numbers = (numbers ^ word) * weight
        numbers ^= numbers >> np.uint64(29)
    return numbers


def are_surely_distinct(texts: pa.ChunkedArray) -> bool:
    """Whether every text occurs once, by their fingerprints: True is certain, False is almost certain.

    Args:
        texts: a string column without nulls.
    """
    return len(texts) < 2 or not len(repeated_numbers(np.sort(fingerprints(chunk)) for chunk in texts.chunks))


def find_repeats(texts: pa.Array) -> NDArray[np.int64]:
    """The positions, ascending, of the texts that occur more than once. Exact.

    Args:
        texts: a string column without nulls.
    """
    if len(texts) < 2:
        return np.zeros(0, np.int64)
    counts = texts.value_counts()
    repeats = counts.field("values").filter(pc.greater(counts.field("counts"), literal(1, pa.int64())))
    return np.flatnonzero(flags_of(pc.is_in(texts, value_set=repeats)))


def find_repeated_numbers(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """The positions in all parts together, ascending, of the numbers that occur more than once."""
    parts = [np.zeros(0, np.uint64), *parts]
    repeats = repeated_numbers(map(np.sort, parts))
    if not len(repeats):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.isin(np.concatenate(parts), repeats, kind="sort"))


def repeated_numbers(runs: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """The numbers that occur more than once in all runs together.

    Args:
        runs: each is ascending. To merge a million numbers takes a quarter of the time of sorting them.
    """
    merged = np.sort(np.concatenate([np.zeros(0, np.uint64), *runs]), kind="stable")
    repeats: NDArray[np.uint64] = merged[1:][merged[1:] == merged[:-1]]
    return repeats


def _cut(words: NDArray[np.uint64], starts: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The words at ``starts``, shortened to the last ``left`` bytes; the bytes before them belong to another text."""
    byte_counts = np.clip(left, 0, _WORD)
    # A word that would start before the buffer is read at its start and shifted into place.
    shifts = (_WORD * np.clip(-starts, 0, _WORD - 1)).astype(np.uint64)
    word = words[np.clip(starts, 0, len(words) - 1)] << shifts
    other_bits = (_WORD * np.clip(_WORD - byte_counts, 0, _WORD - 1)).astype(np.uint64)
    return np.where(byte_counts > 0, word >> other_bits, np.uint64(0))
