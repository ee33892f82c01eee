"""Tables without the rows at some positions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow_values import bools, int64s, null

#: Cutting around rows copies nothing, and leaves pieces.
_CUTS = 1_000


def left_out(rows: pa.Table, positions: NDArray[np.int64], cuts: int = _CUTS) -> pa.Table:
    """The rows but those at these positions, ascending; up to so many are left out by cutting around them."""
    if not len(positions):
        return rows
    if len(positions) > cuts:
        keep = np.ones(len(rows), np.bool_)
        keep[positions] = False
        return rows.filter(bools(keep))
    starts = [0, *(positions + 1)]
    ends = [*positions, len(rows)]
    return pa.concat_tables([rows.slice(s, e - s) for s, e in zip(starts, ends, strict=True) if e > s] or [rows[:0]])


def nulled(rows: pa.Table, positions: NDArray[np.int64]) -> pa.Table:
    """The rows, but null at these positions."""
    live = np.ones(len(rows), np.bool_)
    live[positions] = False
    return rows.take(pc.if_else(bools(live), int64s(np.arange(len(rows))), null(pa.int64())))
