"""The parts of a rewrite that fit a limit of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import literal, numbers_of
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt

Rows = NDArray[np.int64]


def limited_parts(files: pa.Table, parts: Sequence[Rows], max_bytes: int) -> Rows:
    """The numbers of the parts to rewrite, ascending; see ``parts_within``.

    Args:
        files: a files table.
        parts: the row numbers of the files of each part, at least one part.
    """
    counts = np.array([len(rows) for rows in parts])
    rows, starts = np.concatenate(parts), np.cumsum(counts) - counts
    sizes = np.add.reduceat(numbers_of(files["size"], np.int64)[rows], starts)
    return parts_within(counts, sizes, np.minimum.reduceat(write_times(files)[rows], starts), max_bytes)


def write_times(files: pa.Table) -> Rows:
    """The modification time of each file of a files table, ms since the epoch; 0: unknown."""
    return numbers_of(pc.fill_null(files["modificationTime"], literal(0, pa.int64())), np.int64)


def parts_within(counts: Rows, sizes: Rows, oldest: Rows, max_bytes: int) -> Rows:
    """The numbers of the parts to rewrite, ascending: as many as fit, in the order of ``in_turn``.

    Args:
        counts: the number of files of each part.
        sizes: the bytes of each part.
        oldest: the modification time of the oldest file of each part.
        max_bytes: a limit for the bytes of all chosen parts together. Larger parts are left out.
    """
    order = in_turn(counts, sizes, oldest, sizes <= max_bytes)
    return np.sort(order[np.cumsum(sizes[order]) <= max_bytes])


def in_turn(counts: Rows, sizes: Rows, oldest: Rows, fits: NDArray[np.bool_]) -> Rows:
    """The numbers of the parts that fit: the part with the oldest file, then the others, the smallest files first.

    The part with the oldest file comes first, so that no part waits forever while new small files arrive. Arguments as
    for ``parts_within``.

    Args:
        fits: which parts fit the limit by themselves.
    """
    numbers = np.flatnonzero(fits)
    order = numbers[np.lexsort((sizes[numbers], sizes[numbers] / np.maximum(counts[numbers], 1)))]
    if not len(order):
        return order
    first = int(np.argmin(oldest[order]))
    return np.concatenate([order[first : first + 1], np.delete(order, first)])


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
