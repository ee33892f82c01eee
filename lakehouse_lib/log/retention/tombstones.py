"""Tombstones: the remove actions of deleted files, and when they expire (PROTOCOL.md, Add File and Remove File).

Until a tombstone expires, vacuum does not delete its file. Checkpoints leave expired tombstones out. All times are ms
since the epoch. A tombstone without a deletion timestamp counts as written in 1970.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.protocol.actions import TOMBSTONE_SCHEMA
from lakehouse_lib.protocol.table_properties import DELETED_FILE_RETENTION


def removals(files: pa.Table, now: int) -> pa.Table:
    """The tombstones of files that a commit removes; their statistics are left out, because the add actions have them.

    Args:
        files: a files table.
        now: the deletion timestamp.
    """
    count = len(files)
    columns = {
        "deletionTimestamp": pa.repeat(literal(now, pa.int64()), count),
        "extendedFileMetadata": pa.repeat(literal(True, pa.bool_()), count),
        "stats": pa.nulls(count, pa.string()),
    }
    arrays = [columns[c.name] if c.name in columns else files[c.name] for c in TOMBSTONE_SCHEMA]
    return pa.Table.from_arrays(arrays, names=TOMBSTONE_SCHEMA.names).cast(TOMBSTONE_SCHEMA)


def retention(configuration: Mapping[str, str], table: str) -> int:
    """How long tombstones and their files are kept: ``delta.deletedFileRetentionDuration``, in ms.

    Raises:
        InvalidArgumentError: the property is not valid.
    """
    return int(DELETED_FILE_RETENTION.of(configuration, table).total_seconds() * 1000)


def checkpoint_cutoff(configuration: Mapping[str, str], *, now: int, committed: int, table: str) -> int:
    """The cutoff of a checkpoint, which leaves out older tombstones.

    The retention counts back from the commit's time if the local clock is ahead of it. Otherwise tombstones would be
    left out too early, and the next vacuum would delete their files as unreferenced.

    Args:
        now: the time of this process's clock.
        committed: when the version's commit file was written.
    """
    return min(now, committed) - retention(configuration, table)


def is_expired(deletion_timestamp: int, cutoff: int) -> bool:
    """Whether a tombstone has expired: it was written at or before the cutoff."""
    return deletion_timestamp <= cutoff


def are_expired(tombstones: pa.Table, cutoff: int) -> pa.ChunkedArray:
    """Which tombstones have expired, as ``is_expired`` for each row."""
    times = pc.fill_null(tombstones["deletionTimestamp"], literal(0, pa.int64()))
    return pc.less_equal(times, literal(cutoff, pa.int64()))


def drop_expired(tombstones: pa.Table, cutoff: int) -> pa.Table:
    """The tombstones that have not expired."""
    return tombstones.filter(pc.invert(are_expired(tombstones, cutoff)))
