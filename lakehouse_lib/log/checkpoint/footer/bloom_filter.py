"""Parquet's Bloom filters (parquet-format, BloomFilter.md): a test for texts that a column chunk may hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_WORDS = 8  # words of 32 bits in a block
_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
#: Texts of one length are hashed together. If the texts have more lengths than this, the filter is not used.
_MOST_LENGTHS = 200

_U64 = NDArray[np.uint64]


def may_hold(bitset: bytes, hashes: _U64) -> NDArray[np.bool_]:
    """For each hash whether the column chunk may hold a text with it; False is certain."""
    blocks = np.frombuffer(bitset, "<u4").reshape(-1, _WORDS)
    block = ((hashes >> np.uint64(32)) * np.uint64(len(blocks))) >> np.uint64(32)
    bits = (hashes.astype(np.uint32)[:, None] * _SALT) >> np.uint32(27)
    mask = np.uint32(1) << bits
    return np.asarray((blocks[block.astype(np.int64)] & mask == mask).all(axis=1))


def hashes_of(texts: pa.Array) -> _U64 | None:
    """The hashes of texts for Parquet's Bloom filters; None if the texts have too many lengths to hash quickly.

    Args:
        texts: a string column without nulls.
    """
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    distinct_lengths = np.unique(lengths)
    if len(distinct_lengths) > _MOST_LENGTHS:
        return None
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    hashes = np.zeros(len(texts), np.uint64)
    for length in distinct_lengths:
        of_length = np.flatnonzero(lengths == length)
        hashes[of_length] = _xxh64(content[starts[of_length, None] + np.arange(length)])
    return hashes


def _xxh64(texts: NDArray[np.uint8]) -> _U64:
    """XXH64 with seed 0 of texts of equal length, one text a row."""
    count, length = texts.shape
    position = length - length % 32
    if position:
        lanes = np.ascontiguousarray(texts[:, :position]).view("<u8").reshape(count, -1, 4)
        first = np.array([int(_P1) + int(_P2), int(_P2), 0, -int(_P1)], object) % 2**64
        state = np.tile(first.astype(np.uint64), (count, 1))
        for stripe in range(lanes.shape[1]):
            state = _round(state, lanes[:, stripe])
        value = _rotate(state[:, 0], 1) + _rotate(state[:, 1], 7) + _rotate(state[:, 2], 12) + _rotate(state[:, 3], 18)
        for lane in range(4):
            value = (value ^ _round(np.zeros(count, np.uint64), state[:, lane])) * _P1 + _P4
    else:
        value = np.full(count, _P5)
    value = value + np.uint64(length)
    for start in range(position, length - 7, 8):
        word = np.ascontiguousarray(texts[:, start : start + 8]).view("<u8")[:, 0]
        value = _rotate(value ^ _round(np.zeros(count, np.uint64), word), 27) * _P1 + _P4
    position = length - length % 8
    if length - position >= 4:
        half = np.ascontiguousarray(texts[:, position : position + 4]).view("<u4")[:, 0].astype(np.uint64)
        value = _rotate(value ^ (half * _P1), 23) * _P2 + _P3
        position += 4
    for byte in range(position, length):
        value = _rotate(value ^ (texts[:, byte].astype(np.uint64) * _P5), 11) * _P1
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


def _round(state: _U64, lane: _U64) -> _U64:
    return _rotate(state + lane * _P2, 31) * _P1


def _rotate(value: _U64, bits: int) -> _U64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))
