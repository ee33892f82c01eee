"""Delete files that the table no longer needs, by delta-spark's rules (PROTOCOL.md, section Vacuum Protocol Check).

Listed or removed files are compared with the paths that the table needs (``unneeded_files``), and unneeded files are
deleted in batches of 100,000. A dry run does the same without the deletions. After VACUUM START, each batch is compared
again with the latest version, pins and clones. After a kill, run the vacuum again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

import pyarrow as pa

from lakehouse_lib.arrow.values import as_array
from lakehouse_lib.errors import InvalidArgumentError, RetentionError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import clock, latest_version
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.log.retention.last_vacuum import LastVacuum, read_last_vacuum, write_last_vacuum
from lakehouse_lib.log.retention.tombstones import drop_expired, retention
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.operations.results import VacuumResult
from lakehouse_lib.operations.upkeep.unneeded_files.deletion import Deletion, Outcome
from lakehouse_lib.operations.upkeep.unneeded_files.inventory import Inventory, inventory_objects
from lakehouse_lib.operations.upkeep.unneeded_files.plan import FileNeeds, file_needs
from lakehouse_lib.operations.upkeep.unneeded_files.recorded_files import recorded_files
from lakehouse_lib.operations.upkeep.unneeded_files.removed_files import (
    RemovedFiles,
    last_expired_version,
    may_lack_tombstones,
    removed_files,
    removes_below_checkpoint,
)
from lakehouse_lib.operations.upkeep.unneeded_files.removed_objects import (
    is_listing_cheaper,
    removed_objects,
    unlogged_paths,
)
from lakehouse_lib.operations.upkeep.unneeded_files.scan import ScannedFolder, scan_table
from lakehouse_lib.progress import Counter, OnProgress
from lakehouse_lib.protocol.table_properties import DELETED_FILE_RETENTION, SET_BY
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.transaction import CommitProperties

_LONGEST_HOURS = 1e10  # about a million years; an int64 holds it in milliseconds

_HOUR = 3_600_000


def vacuum(
    snapshot: Snapshot,
    *,
    retention_hours: float | None = None,
    dry_run: bool = True,
    enforce_retention_duration: bool = True,
    full: bool = True,
    keep_versions: Sequence[int] = (),
    commit_properties: CommitProperties | None = None,
    before_deletion: Callable[[pa.Table], object] | None = None,
    files_per_second: float | None = None,
    inventory: Inventory | None = None,
    now: datetime | None = None,
    on_progress: OnProgress | None = None,
) -> VacuumResult:
    """Delete the files that neither the latest version nor a reader within the retention needs.

    The latest version decides, even if ``snapshot`` is older. Vacuum never deletes:

    - files and folders whose names start with ``_`` or ``.``, except change files, the folder ``_delta_index``, the
      folders of partitions, temporary files of Spark writes, and checksums of deleted files,
    - tables in subfolders (without ``full``, only of subfolders in which this table needs no file), and the
      ``metadata`` of an Iceberg table in the same folder,
    - files outside the folder, symbolic links, and files behind symbolic links,
    - files that shallow clones or pinned versions refer to,
    - empty folders, because a writer may be about to use them.

    A vacuum that deletes files commits ``VACUUM START`` and ``VACUUM END``.

    Args:
        retention_hours: keep files that were removed or written within these hours; None: the table's
            ``delta.deletedFileRetentionDuration``, else 168. A checkpoint has only the tombstones within the retention
            that the table had then. If that may have been shorter, the tombstones are read from the commits that the
            log still has.
        dry_run: only return the paths of the files that would be deleted.
        enforce_retention_duration: refuse fewer hours than the table's retention.
        full: list the table, and delete old files without a log entry, too; False: delete only files that commits have
            removed since the last vacuum, and change files of these commits that are older than the retention. The
            paths and sizes of these files are read from the log. The store is asked for a file if the log lacks its
            size, or if it was removed before the cutoff of an earlier vacuum, because ``keep_versions``, a pin or a
            clone may have kept it. If a listing takes far fewer requests (``is_listing_cheaper``), the table is listed.
            If some of these commits were cleaned up, their files stay, and a warning is logged.
        keep_versions: keep all files of these versions.
        commit_properties: the properties of both commits; only VACUUM START has the application transactions.
        before_deletion: called with the files to delete (OBJECT_SCHEMA), at most 100,000 at a time, before their
            deletion. If it raises an error, the vacuum stops, and these files stay.
        files_per_second: the largest number of files deleted per second; None: no limit.
        inventory: a list of the stored objects, which replaces the listing of the table: the ``manifest.json`` of a
            bucket's inventory, Parquet files or CSV files with a header, or an Arrow reader. Columns: ``key`` (in the
            bucket) or ``path`` (a location, or relative to the table), ``size`` and ``last_modified_date``. None: the
            table is listed.
        now: the moment from which the retention is counted back (UTC if it has no zone); None: this machine's clock,
            which must not be ahead of the store's clock unless it is a dry run.
        on_progress: called while objects are listed, and after each deletion of 100,000 files, or fewer files with
            ``files_per_second``.

    Returns:
        The first 100,000 paths. Metrics: numFilesToDelete and sizeOfDataToDelete (bytes) by the plan; numDeletedFiles
        and sizeOfDeletedFiles (bytes), both 0 in a dry run; numListCalls. Without a listing, they may count files that
        another program has deleted before.

    Raises:
        RetentionError: ``retention_hours`` is shorter than the table's retention, or this machine's clock is ahead of
            the store's by more than ten minutes (``log.clock.MOST_AHEAD``); nothing is deleted.
        UnsupportedFeatureError: the table has a writer feature that this library does not support; the feature may have
            files that this library does not know.
        InvalidArgumentError: the inventory cannot be read (DELTA_INVALID_INVENTORY), or is given with ``full`` False;
            the retention is negative or longer than 1e10 hours, or the table's retention is not an interval;
            ``files_per_second`` is not positive; ``keep_versions`` is not a list of versions.
        VersionNotFoundError: a version of ``keep_versions`` does not exist, or was cleaned up.
        LogCorruptedError: an action's deletion vector does not name the file that stores it, so vacuum cannot keep it;
            or a commit whose tombstones are needed cannot be read.
    """
    latest = newest(snapshot)
    store = latest.store
    configured = retention(latest.configuration, store.root)
    retention_ms = configured if retention_hours is None else _retention_ms(retention_hours, store.root)
    if enforce_retention_duration and retention_ms < configured:
        raise RetentionError(
            f"a retention of {retention_hours} hours is shorter than the table's {configured / _HOUR:g} hours",
            table=store.root,
            version=latest.version,
            hint="Pass enforce_retention_duration=False if every reader and writer started within these hours, "
            f"or set {DELETED_FILE_RETENTION.key} by {SET_BY}",
        )
    if files_per_second is not None and not files_per_second > 0:
        raise InvalidArgumentError(
            f"files_per_second is {files_per_second!r}; expected a number above 0, or None",
            table=store.root,
            hint="Leave files_per_second out to delete without a limit",
        )
    if inventory is not None and not full:
        raise InvalidArgumentError(
            "full is False and inventory is given; expected only one of them",
            table=store.root,
            hint="Pass full=True, because an inventory replaces the listing of a full vacuum",
        )
    if not isinstance(keep_versions, Collection) or not all(type(version) is int for version in keep_versions):
        raise InvalidArgumentError(
            f"keep_versions is {excerpt(keep_versions)}; expected a list of versions",
            table=store.root,
            hint="Leave keep_versions out, or give versions such as [3, 7]",
        )
    moment = clock.now() if now is None else int(moment_of(now, store.root).timestamp() * 1000)
    cutoff = moment - retention_ms
    latest.check_writable()
    files = pa.concat_tables([latest.files, *(load_snapshot(store, version).files for version in keep_versions)])
    records = recorded_files(store, moment, cutoff)
    commits = [commit for commit in list_commits(store) if commit.version <= latest.version]
    removed = None if full else removed_files(latest, commits, cutoff)
    needs = file_needs(
        files,
        _all_tombstones(latest, cutoff) if removed is None else removed.tombstones,
        cutoff,
        store=store,
        change_files=None if removed is None else as_array(removed.change_files["path"]),
        kept_paths=records.paths,
        partition_columns=list(latest.layout.partition_keys.values()),
    )
    deletion = Deletion(
        latest,
        moment,
        cutoff,
        now is None,
        {
            "retentionCheckEnabled": enforce_retention_duration,
            "defaultRetentionMillis": configured,
            "specifiedRetentionMillis": retention_ms,
        },
        commit_properties,
        before_deletion,
        files_per_second,
        None if on_progress is None or dry_run else Counter("deleted files", on_progress),
    )
    outcome = Outcome(deletion, dry_run)
    list_calls = store.list_calls
    try:
        for folder in _folders(needs, removed, inventory, on_progress):
            outcome.take(folder)
        list_calls = store.list_calls - list_calls
        current = newest(latest) if full else latest  # files that were committed during the listing are live
        outcome.finish(current if current.version > latest.version else None)
        version = deletion.end({"numVacuumedDirectories": len(outcome.folders)})
    except BaseException:
        deletion.fail()
        raise
    if not dry_run:
        store.delete_many((deletion.recorded or records).unneeded_records)
        if inventory is None and (removed is None or removed.is_complete):  # an inventory may lack files
            # A pin that was released meanwhile counts, too, because the plan has kept its files.
            kept_versions = {*keep_versions, *records.versions, *deletion.kept_versions}
            last = read_last_vacuum(store, latest.version)
            version_limit = min({last_expired_version(latest, commits, cutoff), *kept_versions})
            write_last_vacuum(store, LastVacuum(max(last.version, version_limit), max(last.cutoff, cutoff)))
    metrics = {
        "numFilesToDelete": outcome.count,
        "sizeOfDataToDelete": outcome.size,
        "numDeletedFiles": deletion.deleted,
        "sizeOfDeletedFiles": deletion.deleted_bytes,
        "numListCalls": list_calls,
    }
    return VacuumResult(store.root, latest.version, version, metrics, dry_run, retention_hours, tuple(outcome.paths))


def _folders(
    needs: FileNeeds, removed: RemovedFiles | None, inventory: Inventory | None, on_progress: OnProgress | None
) -> Iterable[ScannedFolder]:
    """The unneeded files.

    Args:
        removed: the files that commits have removed; None: a full vacuum.
    """
    if inventory is not None:
        return [inventory_objects(inventory, needs)]
    if removed is not None:
        others = unlogged_paths(needs, removed.logged)
        if not is_listing_cheaper(needs, len(others)):
            return [removed_objects(needs, removed.logged, others)]
    counter = None if on_progress is None else Counter("listed objects", on_progress)
    return scan_table(needs.store, needs, None if counter is None else counter.add)


def newest(snapshot: Snapshot) -> Snapshot:
    """The latest version. ``Snapshot.update`` may not find it if log cleanup deleted commits after the snapshot."""
    latest = snapshot.update()
    version = latest_version(latest.store)
    return latest if version is None or latest.version >= version else load_snapshot(latest.store)


def _retention_ms(retention_hours: float, table: str) -> int:
    is_number = isinstance(retention_hours, int | float) and not isinstance(retention_hours, bool)
    if not is_number or not 0 <= retention_hours <= _LONGEST_HOURS:
        raise InvalidArgumentError(
            f"retention_hours is {retention_hours!r}; expected a number from 0 to 1e10",
            table=table,
            hint="Pass 0 or more hours, or None for the table's own retention",
        )
    return int(retention_hours * _HOUR)


def _all_tombstones(latest: Snapshot, since: int) -> pa.Table:
    """The tombstones of this version, and those after ``since`` that its checkpoint may lack."""
    dropped = removes_below_checkpoint(latest, since) if may_lack_tombstones(latest, since) else []
    unexpired = [drop_expired(table, since).select(latest.tombstones.column_names) for table in dropped]
    return pa.concat_tables([latest.tombstones, *unexpired])
