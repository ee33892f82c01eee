"""The partitions of a table with the most bytes, and the partitions with the most small files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import int64s, numbers_of
from lakehouse_lib.engine.base import is_small
from lakehouse_lib.operations.files import partition_codes
from lakehouse_lib.operations.inspect.detail import partition_texts
from lakehouse_lib.snapshot import Snapshot


@dataclass(frozen=True)
class Partition:
    """The number and the size of a partition's files.

    Attributes:
        values: the value of each partition column, as in the log; None: null.
        small_files: the number of files below half of the target size.
    """

    values: tuple[str | None, ...]
    files: int
    bytes: int
    small_files: int


@dataclass(frozen=True)
class HeavyPartitions:
    """The partitions that need attention.

    Attributes:
        columns: the partition columns.
        partitions: the number of all partitions.
        largest: the partitions with the most bytes, the largest first.
        fragmented: the partitions with the most small files, the worst first. Partitions without small files are left
            out.
    """

    columns: tuple[str, ...]
    partitions: int
    largest: tuple[Partition, ...]
    fragmented: tuple[Partition, ...]


def heavy_partitions(snapshot: Snapshot, target_file_size: int, most: int) -> HeavyPartitions | None:
    """The heaviest partitions of a version; None: the table has no partition columns.

    Args:
        target_file_size: bytes; files below half of it are small.
        most: the number of partitions in each list.
    """
    if not snapshot.partition_columns:
        return None
    files = snapshot.file_columns(["size", "partitionValues"])
    codes = partition_codes(files, snapshot.layout)
    sizes = numbers_of(files["size"], np.int64)
    _, first, codes, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, codes, sizes)
    small = np.bincount(codes[is_small(sizes, target_file_size)], minlength=len(first))

    def described(chosen: NDArray[np.int64]) -> tuple[Partition, ...]:
        values = partition_texts(snapshot, files.take(int64s(first[chosen])))
        numbers = zip(counts[chosen], totals[chosen], small[chosen], strict=True)
        return tuple(Partition(texts, *map(int, row)) for texts, row in zip(values, numbers, strict=True))

    by_small = np.argsort(-small, kind="stable")[:most]
    return HeavyPartitions(
        tuple(snapshot.partition_columns),
        len(first),
        described(np.argsort(-totals, kind="stable")[:most]),
        described(by_small[small[by_small] > 0]),
    )
