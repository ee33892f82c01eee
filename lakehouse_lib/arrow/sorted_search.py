"""Binary search in a sorted column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, int64s, numbers_of


def count_below(values: pa.Array, needles: pa.Array, *, or_equal: bool = False) -> NDArray[Any]:
    """For each needle, the number of ``values`` below it; any number if the needle is null.

    Args:
        values: sorted, without nulls, with the needles' type.
        or_equal: count the values that are equal to the needle, too.
    """
    if hasattr(pc, "search_sorted") and not pa.types.is_decimal(values.type):  # pyarrow 26 and newer
        counts = pc.search_sorted(values, needles, side="right" if or_equal else "left")
        return numbers_of(counts, np.uint64).astype(np.int64)
    count = np.zeros(len(needles), np.int64)
    compare = pc.less_equal if or_equal else pc.less
    step = 1 << len(values).bit_length() >> 1
    while step:
        probe = np.minimum(count + step, len(values))
        is_below = flags_of(compare(values.take(int64s(probe - 1)), needles))
        count = np.where(is_below & (probe == count + step), probe, count)
        step >>= 1
    return count
