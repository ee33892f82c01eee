"""The distribution of file sizes, and of bytes over partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: The lower ends of the buckets of the histogram, in bytes: 0, 64 KiB, and so on, each four times the previous one.
BUCKETS = (0, *(4**power * 65_536 for power in range(9)))


@dataclass(frozen=True)
class SizeBucket:
    """The files with at least ``start`` bytes, and fewer than the start of the next bucket.

    Attributes:
        files: the number of these files.
        bytes: the total size of these files.
    """

    start: int
    files: int
    bytes: int


@dataclass(frozen=True)
class PartitionSkew:
    """The skew of files and bytes over partitions. A table without partition columns counts as one partition.

    Attributes:
        partitions: the number of partitions.
        files: the number of files in the partition with the most files.
        bytes, median_bytes: the size of the largest and of the median partition; 0 without files.
        share: the share of the table's bytes that is in the largest partition.
    """

    partitions: int
    files: int
    bytes: int
    median_bytes: int
    share: float


def size_histogram(sizes: NDArray[np.int64]) -> tuple[SizeBucket, ...]:
    """The number and the total size of the files in each bucket of ``BUCKETS``."""
    bucket = np.searchsorted(np.array(BUCKETS), sizes, side="right") - 1
    files = np.bincount(bucket, minlength=len(BUCKETS))
    totals = np.zeros(len(BUCKETS), np.int64)
    np.add.at(totals, bucket, sizes)
    return tuple(SizeBucket(*map(int, entry)) for entry in zip(BUCKETS, files, totals, strict=True))


def percentile(sizes: NDArray[np.int64], share: float) -> int | None:
    """A percentile of the sizes, in whole bytes; None without files."""
    return int(np.percentile(sizes, share)) if len(sizes) else None


def partition_skew(partitions: NDArray[np.int64], sizes: NDArray[np.int64]) -> PartitionSkew:
    """The skew of these files over partitions.

    Args:
        partitions: a number for each file, equal for files of a partition.
    """
    if not len(sizes):
        return PartitionSkew(0, 0, 0, 0, 0.0)
    counts = np.bincount(partitions)
    totals = np.zeros(len(counts), np.int64)
    np.add.at(totals, partitions, sizes)
    totals = totals[counts > 0]
    largest = int(totals.max())
    return PartitionSkew(
        len(totals), int(counts.max()), largest, int(np.median(totals)), largest / max(int(totals.sum()), 1)
    )
