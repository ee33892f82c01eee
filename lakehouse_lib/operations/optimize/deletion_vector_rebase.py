"""Rebase of a rewrite on concurrent deletion vectors: rows that were deleted during the copy are deleted in the copy.

Maintenance must not fail because of a concurrent delete, and must not bring deleted rows back. A rewrite has copied the
rows that the file's deletion vector did not hide. A later vector of the same file hides more rows. This module finds
the positions of these rows in the new files. Compaction keeps the order of rows, so their positions are counted
(``places_in_order``). Z-order moves the key columns again (``z_order.deleted_positions``).
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
class MarkedGroup:
    """A group of a rewrite whose files are all live, some of them with new deletion vectors.

    All attributes are files tables.

    Attributes:
        copied: the files of the group when their rows were copied, with the statistics of the latest version.
        removed: the same files in the same order, in the latest version.
        added: the files that were written for them.
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

    def with_marks(self, marks: Sequence[BitMap64], store: ObjectStore) -> pa.Table:
        """``added`` with these rows of each file marked as deleted; files without a remaining row are left out."""
        return with_vectors(self.added, marks, num_records(self.added).to_pylist(), store)


#: A function that finds newly deleted rows of these groups: group number -> their positions in each file of ``added``.
#: A group whose positions cannot be determined is left out.
Places = Callable[[ObjectStore, Mapping[int, MarkedGroup]], Mapping[int, Sequence[BitMap64]]]


def marked_groups(
    removed: tuple[pa.Table, NDArray[np.int64]], added: tuple[pa.Table, NDArray[np.int64]], latest: Snapshot
) -> dict[int, MarkedGroup]:
    """The groups, by number, whose files are all live, if one of the files got another deletion vector after the copy.

    Args:
        removed, added: the copied files and the written files, each with the group of every file.
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
            # A plan may leave out the statistics. A deletion vector does not change a file's ``numRecords``.
            stats = copied.column_names.index("stats")
            group_copied = copied.take(pa.array(members)).set_column(stats, "stats", group_now["stats"])
            by_group[group] = MarkedGroup(group_copied, group_now, group_added)
    return by_group


def places_in_order(store: ObjectStore, groups: Mapping[int, MarkedGroup]) -> dict[int, list[BitMap64]]:
    """``Places`` of a rewrite that writes one file for each group, with the rows of its files one after another.

    The place of a row is the number of copied rows before it, in its file and in the files before. Therefore a group is
    left out if the written file has another number of rows than the log gives for its files.
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
                    break  # a row that was not copied is live again
                new = deletion_vector.positions(deleted - left_out)
                marks |= deletion_vector.bitmap_of(
                    start + new - np.searchsorted(deletion_vector.positions(left_out), new)
                )
            start += count
        else:
            places[number] = [marks][: len(group.added)]  # if no row was copied, no file was written
    return places
