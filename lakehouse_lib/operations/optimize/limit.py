"""The parts of a rewrite that fit a limit of bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt

Rows = NDArray[np.int64]


def parts_within(counts: Rows, sizes: Rows, max_bytes: int | None) -> Rows:
    """The numbers of the parts to rewrite, ascending. Parts with the smallest files are chosen first.

    Args:
        counts: the number of files of each part.
        sizes: the bytes of each part.
        max_bytes: a limit for the bytes of all chosen parts together; None: no limit.
    """
    if max_bytes is None:
        return np.arange(len(sizes))
    order = smallest_first(counts, sizes)
    return np.sort(order[np.cumsum(sizes[order]) <= max_bytes])


def smallest_first(counts: Rows, sizes: Rows) -> Rows:
    """The numbers of the parts, the part with the smallest files first. Arguments as for ``parts_within``."""
    return np.lexsort((sizes, sizes / np.maximum(counts, 1)))


def check_max_bytes(max_bytes: int | None, table: str) -> None:
    """Refuse a limit that is not a positive whole number of bytes.

    Raises:
        InvalidArgumentError: the limit is not a positive whole number.
    """
    if max_bytes is not None and (type(max_bytes) is not int or max_bytes < 1):
        raise InvalidArgumentError(
            f"max_bytes is {excerpt(max_bytes)}; expected a positive number of bytes",
            table=table,
            hint="Leave max_bytes out to rewrite without a limit",
        )
