"""Rows that others marked as deleted while they were being copied: the same marks, where the rows are now.

Maintenance must neither lose to a writer nor bring back what it deleted. A rewrite that keeps the order of rows knows
the new place of each: the rows before it in its file and in those before, without those left out in copying.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib import deletion_vectors, file_paths
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class Carried:
    """A group of a rewrite.

    Attributes:
        removed: its files as they are in the latest version.
        marks: the positions, in the file that was written for them, of rows that are deleted by now.
    """

    removed: pa.Table
    marks: BitMap64

    def applied(self, added: pa.Table, store: ObjectStore) -> pa.Table:
        """The one written file with the marks on it; without any file when they leave no row."""
        row = added.to_pylist()[0]
        stats = json.loads(row["stats"])
        if stats["numRecords"] == len(self.marks):
            return added.slice(0, 0)
        # Bounds of rows that are gone are still bounds, but no longer of rows that are there.
        row["stats"] = json.dumps({**stats, "tightBounds": False}, separators=(",", ":"))
        row["deletionVector"] = deletion_vectors.save(store, self.marks)
        return pa.Table.from_pylist([row], schema=added.schema)


def carried(copied: pa.Table, groups: NDArray[np.int64], latest: Snapshot) -> dict[int, Carried]:
    """The groups of which no file is gone and some have other deletion vectors than when they were copied.

    Args:
        copied: the files (a files table) as they were then; a group's rows were copied in this order.
        groups: the group of each.
    """
    store = latest.store
    files = latest.files
    now = pc.index_in(file_paths.canonical(copied["path"], store), value_set=file_paths.canonical(files["path"], store))
    rows = live_records(copied)
    before = copied["deletionVector"].to_pylist()
    found: dict[int, Carried] = {}
    for group in np.unique(groups).tolist():
        members = np.flatnonzero(groups == group)
        places = now.take(pa.array(members))
        if places.null_count or rows.take(pa.array(members)).null_count:
            continue
        removed = files.take(places)
        after = removed["deletionVector"].to_pylist()
        if [before[member] for member in members] == after:
            continue
        marks = _marks(store, [before[member] for member in members], after, [rows[int(m)].as_py() for m in members])
        if marks is not None:
            found[group] = Carried(removed, marks)
    return found


def _marks(
    store: ObjectStore,
    before: list[Mapping[str, Any] | None],
    after: list[Mapping[str, Any] | None],
    copied_rows: list[int],
) -> BitMap64 | None:
    """Where the rows are that have been marked since; None where rows have come back."""
    marks = BitMap64()
    start = 0
    for was, now, rows in zip(before, after, copied_rows, strict=True):
        if was != now:
            left_out, deleted = _loaded(store, was), _loaded(store, now)
            if not left_out <= deleted:
                return None
            new = _positions(deleted - left_out)
            places = start + new - np.searchsorted(_positions(left_out), new)
            marks |= BitMap64(places.tolist())
        start += rows
    return marks


def _loaded(store: ObjectStore, descriptor: Mapping[str, Any] | None) -> BitMap64:
    return BitMap64() if descriptor is None else deletion_vectors.load(store, descriptor)


def _positions(bitmap: BitMap64) -> NDArray[np.int64]:
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
