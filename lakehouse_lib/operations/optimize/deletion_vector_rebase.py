"""Rows that others marked as deleted while they were being copied: the same marks, where the rows are now.

Maintenance must neither lose to a writer nor bring back what it deleted. A rewrite has copied the rows that a file's
deletion vector left then; what the vector of now has beyond that has been deleted since. Where those rows went only the
rewrite itself knows: compaction keeps their order and counts (``places_in_order``), clustering sends their keys the
same way once more (``clustering.marks``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.operations.deletion_vectors import with_vectors
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.protocol.deletion_vector import bitmap_of, positions
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class MarkedGroup:
    """A group of a rewrite whose files are all there, some of them with other deletion vectors. Files tables all.

    Attributes:
        copied: its files as they were when their rows were copied.
        removed: the same files, in the same order, as they are in the latest version.
        added: what was written for them.
    """

    copied: pa.Table
    removed: pa.Table
    added: pa.Table

    @property
    def vectors(self) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
        """The deletion vectors of each file, as it was copied and as it is now."""
        return list(
            zip(self.copied["deletionVector"].to_pylist(), self.removed["deletionVector"].to_pylist(), strict=True)
        )

    def with_marks(self, marks: Sequence[BitMap64], store: ObjectStore) -> pa.Table:
        """``added`` with these rows of each file marked as deleted; without the files of which no row is left."""
        return with_vectors(self.added, marks, num_records(self.added).to_pylist(), store)


#: Where the rows are that have been marked in these groups: for each group, by number, the positions in each file of
#: its ``added``. A group whose positions cannot be determined is left out.
Places = Callable[[ObjectStore, Mapping[int, MarkedGroup]], Mapping[int, Sequence[BitMap64]]]


def marked_groups(
    removed: tuple[pa.Table, NDArray[np.int64]], added: tuple[pa.Table, NDArray[np.int64]], latest: Snapshot
) -> dict[int, MarkedGroup]:
    """The groups of a rewrite of which no file is gone and some have other deletion vectors than when they were copied.

    Args:
        removed, added: the files that were copied and those that were written, and the group of each.
    """
    copied, groups = removed
    written, written_groups = added
    store = latest.store
    files = latest.files
    now = pc.index_in(file_paths.canonical(copied["path"], store), value_set=file_paths.canonical(files["path"], store))
    before = copied["deletionVector"].to_pylist()
    by_group: dict[int, MarkedGroup] = {}
    for group in np.unique(groups).tolist():
        members = np.flatnonzero(groups == group)
        places = now.take(pa.array(members))
        if places.null_count:
            continue
        group_now = files.take(places)
        if [before[member] for member in members] != group_now["deletionVector"].to_pylist():
            group_added = written.filter(pa.array(written_groups == group))
            by_group[group] = MarkedGroup(copied.take(pa.array(members)), group_now, group_added)
    return by_group


def places_in_order(store: ObjectStore, groups: Mapping[int, MarkedGroup]) -> dict[int, list[BitMap64]]:
    """``Places`` of a rewrite whose groups are one file each, with the rows of the copied ones one after another.

    The place of a row is the number of rows before it in its file and in those before, without those left out. So a
    group is left out whose files do not hold as many rows as the log says: their writer may have counted otherwise.
    """
    places: dict[int, list[BitMap64]] = {}
    for number, group in groups.items():
        counts = live_records(group.copied)
        if counts.null_count or pc.sum(counts) != pc.sum(live_records(group.added), min_count=0):
            continue
        marks = BitMap64()
        start = 0
        for (was, now), count in zip(group.vectors, counts.to_pylist(), strict=True):
            if was != now:
                left_out, deleted = deletion_vector.load(store, was), deletion_vector.load(store, now)
                if not left_out <= deleted:
                    break  # rows have come back, and were not copied
                new = positions(deleted - left_out)
                marks |= bitmap_of(start + new - np.searchsorted(positions(left_out), new))
            start += count
        else:
            places[number] = [marks][: len(group.added)]  # of rows that were all left out no file was written
    return places
