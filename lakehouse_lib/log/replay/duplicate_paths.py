"""Which texts of a long column occur more than once, without a hash table of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, literal

_WORD = 8
#: Words from the end of a text, where names of files differ.
_WORDS = 8
#: Odd numbers, so that no bit of a word is lost; numpy's own random numbers take 20 ms to import.
_WEIGHTS = np.multiply.accumulate(np.full(_WORDS, 0x9E3779B97F4A7C15, np.uint64))


def fingerprints(texts: pa.Array) -> NDArray[np.uint64]:
    """One number for each text: equal for equal texts, and almost always different for different texts.

    It is made of a text's length and its last 64 bytes, so that a million paths take a twentieth of a second.

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
    # The eight bytes from every position on, as numbers; nothing is copied.
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
    """Whether every text occurs once, by their fingerprints: True is certain, and False almost.

    Args:
        texts: a string column without nulls.
    """
    numbers = np.sort(np.concatenate([np.zeros(0, np.uint64), *map(fingerprints, texts.chunks)]))
    return not bool((numbers[1:] == numbers[:-1]).any())


def find_repeats(texts: pa.Array) -> NDArray[np.int64]:
    """The positions, ascending, of the texts that occur more than once. Exact.

    Args:
        texts: a string column without nulls.
    """
    if len(texts) < 2:
        return np.zeros(0, np.int64)
    counts = texts.value_counts()
    several = counts.field("values").filter(pc.greater(counts.field("counts"), literal(1, pa.int64())))
    return np.flatnonzero(flags_of(pc.is_in(texts, value_set=several)))


def find_repeated_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The positions, ascending, of the numbers that occur more than once."""
    ordered = np.sort(numbers)
    several = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(numbers, several, kind="sort")) if len(several) else np.zeros(0, np.int64)


def _cut(words: NDArray[np.uint64], starts: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The words from ``starts`` on without what lies before their text, of which ``left`` bytes end with the word."""
    own = np.clip(left, 0, _WORD)
    # Before the first byte of all nothing can be read: what is read instead is moved to where it belongs.
    moved = (_WORD * np.clip(-starts, 0, _WORD - 1)).astype(np.uint64)
    word = words[np.clip(starts, 0, len(words) - 1)] << moved
    return np.where(own > 0, word >> (_WORD * np.clip(_WORD - own, 0, _WORD - 1)).astype(np.uint64), np.uint64(0))
