"""Z-order and Hilbert curves: the position of a row on a curve through the space of all key columns.

Each column is divided into up to 1,024 parts of equal weight. A row is in one cell of this grid, and its position is
the number of this cell on the curve. A tree of the positions (``layout``) divides the curve into files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[Any]
Kind = Literal["zorder", "hilbert"]

_MOST_BITS = 10  # of a column
_POSITION_BITS = 62


@dataclass(frozen=True)
class Curve:
    """A curve.

    Attributes:
        kind: "zorder" or "hilbert".
        bounds: for each column, the greatest key of each part except the last, ascending. If one key fills several
            parts, their bounds are equal.
    """

    kind: Kind
    bounds: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, kind: Kind, sample: Sequence[Keys], weights: NDArray[np.float64]) -> Curve:
        """The curve for sampled keys.

        Args:
            sample: one key array for each column.
            weights: the number of rows that each sampled row represents.
        """
        parts = 1 << _bits(len(sample))
        bounds = []
        for keys in sample:
            order = np.argsort(keys, kind="stable")
            total = np.cumsum(weights[order])
            at = np.searchsorted(total, total[-1] * np.arange(1, parts) / parts) if len(keys) else np.zeros(0, int)
            bounds.append(keys[order][np.minimum(at, len(keys) - 1)].astype(np.int64))
        return cls(kind, tuple(bounds))

    def positions(self, keys: Sequence[Keys]) -> NDArray[np.int64]:
        """The position of each row; equal keys have equal positions."""
        bits = _bits(len(self.bounds))
        grid = [
            np.searchsorted(bounds, column.astype(np.int64)) for bounds, column in zip(self.bounds, keys, strict=True)
        ]
        return interleave_bits(grid if self.kind == "zorder" else hilbert_axes(grid, bits), bits)


def interleave_bits(axes: Sequence[Keys], bits: int) -> NDArray[np.int64]:
    """The bits of all axes, interleaved in one number, the highest bit of each axis first.

    Args:
        bits: the number of bits of each axis.
    """
    result = np.zeros(len(axes[0]), np.int64)
    for bit in reversed(range(bits)):
        for axis in axes:
            result = result << 1 | axis >> bit & 1
    return result


def hilbert_axes(axes: Sequence[Keys], bits: int) -> list[Keys]:
    """The axes whose interleaved bits are the position on a Hilbert curve.

    The algorithm is by J. Skilling (Programming the Hilbert curve, AIP Conference Proceedings 707, 2004).

    Args:
        bits: the number of bits of each axis.
    """
    axes = [axis.astype(np.int64) for axis in axes]
    for bit in reversed(range(1, bits)):
        low = (1 << bit) - 1
        for number, axis in enumerate(axes):
            is_set = (axis >> bit & 1).astype(np.bool_)
            exchanged = np.where(is_set, 0, (axes[0] ^ axis) & low)
            first = np.where(is_set, axes[0] ^ low, axes[0] ^ exchanged)
            axes[number] = axis ^ exchanged
            axes[0] = first
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    gray = np.zeros(len(axes[0]), np.int64)
    for bit in reversed(range(1, bits)):
        gray = np.where(axes[-1] >> bit & 1, gray ^ ((1 << bit) - 1), gray)
    return [axis ^ gray for axis in axes]


def _bits(columns: int) -> int:
    return max(min(_MOST_BITS, _POSITION_BITS // columns), 1)
