"""Rebase of a rewrite on concurrent deletion vectors: rows that were deleted during the copy are deleted in the copy.

A rewrite must not fail because of a concurrent delete, and must not restore deleted rows. It copies the rows that the
deletion vector of a file does not hide. A concurrent commit may replace this vector by a vector that hides more rows.
This module finds the positions of these rows in the new files. Compaction keeps the order of rows, so the positions can
be counted (``positions_by_count``). After a Z-order, the key columns are sent through the exchange again
(``z_order.deleted_positions``).
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

from lakehouse_lib.operations.deletion_vector_writer import with_vectors
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class RebasedGroup:
    """A group of a rewrite whose files are all live, some of them with new deletion vectors.

    All attributes are files tables.

    Attributes:
        copied: the files of the group when their rows were copied, with the statistics of the latest version.
        removed: the same files in the same order, as in the latest version.
        added: the new files, which contain the copied rows.
    """

    copied: pa.Table
    removed: pa.Table
    added: pa.Table

    @property
    def vectors(self) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
        """The deletion vectors of each file: when it was copied, and in the latest version."""
        return list(
            zip(self.copied["deletionVector"].to_pylist(), self.removed["deletionVector"].to_pylist(), strict=True)
        )

    def with_deletions(self, marks: Sequence[BitMap64], store: ObjectStore) -> pa.Table:
        """``added`` with deletion vectors that hide these rows of each file; files without live rows are left out."""
        return with_vectors(self.added, marks, num_records(self.added).to_pylist(), store)


#: A function that finds the newly deleted rows of groups. The result has, for each group number, the positions of these
#: rows in each file of ``added``. A group whose positions cannot be determined is left out.
Places = Callable[[ObjectStore, Mapping[int, RebasedGroup]], Mapping[int, Sequence[BitMap64]]]


def rebased_groups(
    removed: tuple[pa.Table, NDArray[np.int64]], added: tuple[pa.Table, NDArray[np.int64]], latest: Snapshot
) -> dict[int, RebasedGroup]:
    """The groups, by number, whose files are all live, if one of the files got another deletion vector after the copy.

    Args:
        removed, added: the copied files and the written files, each with the group number of every file.
    """
    copied, groups = removed
    written, written_groups = added
    store = latest.store
    files = latest.files
    now = pc.index_in(file_paths.canonical(copied["path"], store), value_set=file_paths.canonical(files["path"], store))
    before = copied["deletionVector"].to_pylist()
    by_group: dict[int, RebasedGroup] = {}
    for group in np.unique(groups).tolist():
        members = np.flatnonzero(groups == group)
        places = now.take(pa.array(members))
        if places.null_count:
            continue
        group_now = files.take(places)
        if [before[member] for member in members] != group_now["deletionVector"].to_pylist():
            group_added = written.filter(pa.array(written_groups == group))
            # A plan may leave out the statistics. A deletion vector does not change a file's ``numRecords``.
            stats = copied.column_names.index("stats")
            group_copied = copied.take(pa.array(members)).set_column(stats, "stats", group_now["stats"])
            by_group[group] = RebasedGroup(group_copied, group_now, group_added)
    return by_group


def positions_by_count(store: ObjectStore, groups: Mapping[int, RebasedGroup]) -> dict[int, list[BitMap64]]:
    """``Places`` of a rewrite that writes the rows of each group into one file, one old file after another.

    The position of a row is the number of copied rows before it, in its file and in the files before. Therefore a group
    is left out if the number of rows in the written file differs from the number that the log gives for the old files.
    """
    places: dict[int, list[BitMap64]] = {}
    for number, group in groups.items():
        counts = live_records(group.copied)
        if counts.null_count or pc.sum(counts) != pc.sum(live_records(group.added), min_count=0):
            continue
        marks = BitMap64()
        start = 0
        for (old_vector, new_vector), count in zip(group.vectors, counts.to_pylist(), strict=True):
            if old_vector != new_vector:
                old, latest = deletion_vector.load(store, old_vector), deletion_vector.load(store, new_vector)
                if not old <= latest:
                    break  # a row that was not copied is live again
                new = deletion_vector.positions(latest - old)
                marks |= deletion_vector.bitmap_of(start + new - np.searchsorted(deletion_vector.positions(old), new))
            start += count
        else:
            places[number] = [marks][: len(group.added)]  # if no row was copied, no file was written
    return places
