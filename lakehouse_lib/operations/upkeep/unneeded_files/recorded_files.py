"""The files of a table that its pins and shallow clones need, so that vacuum keeps them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.errors import DeltaError
from lakehouse_lib.log import latest_version
from lakehouse_lib.log.retention import file_records, pins
from lakehouse_lib.log.retention.file_records import FileRecord
from lakehouse_lib.log.retention.tombstones import drop_expired, retention
from lakehouse_lib.operations.clone import records as clones
from lakehouse_lib.operations.upkeep.unneeded_files.plan import referenced_paths, shares_name
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore

logger = logging.getLogger(__name__)

_DAY = 86_400_000


@dataclass(frozen=True)
class RecordedFiles:
    """The files of a table that its pins and shallow clones need.

    Attributes:
        paths: their store paths.
        versions: the versions of the table that a pin or a clone needs.
        unneeded_records: the store paths of the records of clones that no longer exist.
    """

    paths: pa.ChunkedArray
    versions: frozenset[int] = frozenset()
    unneeded_records: Sequence[str] = ()


def recorded_files(source: ObjectStore, moment: int, cutoff: int) -> RecordedFiles:
    """The files that pins and clones need now.

    A clone needs the recorded files to which its log refers: its latest version, its unexpired tombstones and its own
    pins. All recorded files are kept if the log cannot be read, or if the record is younger than a day or than the
    retention, because the clone may not be committed yet.

    Args:
        moment: the time of the vacuum, in ms since the epoch.
        cutoff: the retention of the vacuum before ``moment``, in ms since the epoch.

    Raises:
        StoreError: a record cannot be read.
    """
    records = file_records.list_records(source, {pins.KIND: pins.KEY, clones.KIND: clones.KEY})
    paths = [record.files for record in records[pins.KIND]]
    versions = [record.description.get("version") for record in records[pins.KIND]]
    unneeded: list[str] = []
    for record in records[clones.KIND]:
        files = record.files
        if record.modified < min(cutoff, moment - _DAY):
            needed = _needed_files(source, record, moment, cutoff)
            if needed is None:
                unneeded.append(record.path)
                continue
            files = needed
        paths.append(files)
        versions.append(record.description.get("sourceVersion"))
    known_versions = frozenset(version if isinstance(version, int) else 0 for version in versions)
    return RecordedFiles(pa.chunked_array(paths, pa.string()), known_versions, unneeded)


def _needed_files(source: ObjectStore, record: FileRecord, moment: int, cutoff: int) -> pa.Array | None:
    """The recorded files that a clone needs; None: the clone no longer exists."""
    location = record.description.get("location")
    if not isinstance(location, str):
        return record.files
    try:
        store = source.open_location(location)
        if latest_version(store) is None:
            return None if _is_deleted(store) else record.files
        references = _references(load_snapshot(store), moment, cutoff)
    except (DeltaError, OSError) as error:
        logger.warning("vacuum keeps all files of the clone %s, which cannot be read: %s", location, error)
        return record.files
    return record.files.filter(shares_name(pa.chunked_array([record.files]), references).combine_chunks())


def _references(clone: Snapshot, moment: int, cutoff: int) -> pa.ChunkedArray:
    """The store paths to which the readable versions of a clone refer."""
    own_cutoff = moment - retention(clone.configuration, clone.store.root)
    tombstones = drop_expired(clone.tombstones, min(cutoff, own_cutoff))
    pinned_files = [record.files for record in file_records.list_records(clone.store, {pins.KIND: pins.KEY})[pins.KIND]]
    paths = [*referenced_paths(clone.files, clone.store), *referenced_paths(tombstones, clone.store), *pinned_files]
    return pa.chunked_array(paths, pa.string())


def _is_deleted(clone: ObjectStore) -> bool:
    """Whether a clone without a log was certainly deleted.

    The folder of a clone on a disk may be missing because the disk is not mounted, or because this machine does not
    have the disk. In these cases, the folder above is missing or empty, or the clone's folder exists without a log.
    """
    if clone.is_remote:
        return True
    parent = Path(clone.root).parent
    return not os.path.lexists(clone.root) and parent.is_dir() and any(parent.iterdir())
