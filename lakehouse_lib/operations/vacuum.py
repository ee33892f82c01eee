"""Delete files that the table no longer needs, by delta-spark's rules (PROTOCOL.md, section Vacuum Protocol Check).

The plan is one anti-join over Arrow columns, and it is also the dry run. A file is kept if the current version refers
to it, or if its tombstone is younger than the retention. A file without a log entry is kept while the file itself is
younger than the retention, because it may belong to a running writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import InvalidArgumentError, RetentionError, VersionNotFoundError
from lakehouse_lib.features.in_commit_timestamp import effective_properties
from lakehouse_lib.log import clock, latest_version
from lakehouse_lib.log.history import newest_at
from lakehouse_lib.log.last_vacuum import last_vacuumed, write_last_vacuumed
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.log.tombstones import retention, unexpired
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.operations.results import VacuumResult
from lakehouse_lib.operations.unneeded_files.plan import plan_vacuum, referenced_paths
from lakehouse_lib.operations.unneeded_files.recorded_files import RecordedFiles, recorded_files
from lakehouse_lib.operations.unneeded_files.removed_objects import (
    change_file_paths,
    first_version_to_read,
    removed_objects,
    removes_below_checkpoint,
)
from lakehouse_lib.protocol.table_properties import DELETED_FILE_RETENTION, SET_BY
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.transaction import CommitProperties, OptimisticTransaction, version_of

_LONGEST_HOURS = 1e10  # about a million years; an int64 holds it in milliseconds
_HOUR = 3_600_000
_DELETED_AT_ONCE = 100_000


def vacuum(
    snapshot: Snapshot,
    *,
    retention_hours: float | None = None,
    dry_run: bool = True,
    enforce_retention_duration: bool = True,
    full: bool = True,
    keep_versions: Sequence[int] = (),
    commit_properties: CommitProperties | None = None,
    on_deleted: Callable[[pa.Table], object] | None = None,
    now: datetime | None = None,
) -> VacuumResult:
    """Delete the files that neither the latest version nor a reader within the retention needs.

    The latest version counts, even if ``snapshot`` is older. Vacuum never deletes hidden folders (``_x``, ``.x``),
    tables in subfolders, the ``metadata`` of an Iceberg table in the same folder, files outside the folder, symbolic
    links or files behind them, and files that shallow clones or pinned versions refer to. Empty folders are
    kept, because a writer may be about to use them. A run that deletes files adds ``VACUUM START`` and ``VACUUM END``
    to the history.

    Args:
        retention_hours: keep files that were removed or written within these hours; None: the table's
            ``delta.deletedFileRetentionDuration``, else 168. Checkpoints contain only the tombstones of the table's
            own retention. If more hours are requested, older tombstones are read from the commits that the log still
            has.
        dry_run: only return what would be deleted.
        enforce_retention_duration: refuse fewer hours than the table's retention.
        full: list the table, and delete old files without a log entry, too; False: only files that commits have
            removed since the last vacuum, and change files of these commits that are older than the retention. These
            files are read from the log, without a listing of the table.
        keep_versions: keep all files of these versions.
        commit_properties: the properties of both commits.
        on_deleted: called with the deleted files (OBJECT_SCHEMA), at most 100,000 at a time, after their deletion. If
            it raises an error, the vacuum stops.
        now: the moment from which the retention is counted back; None: this machine's clock, which must not be ahead of
            the store's clock unless it is a dry run.

    Raises:
        RetentionError: ``retention_hours`` is shorter than the table's retention, or this machine's clock is ahead of
            the store's by more than ten minutes (``log.clock.MOST_AHEAD``); nothing is deleted.
        UnsupportedFeatureError: the table has a writer feature that this library does not support; the feature may have
            files that this library does not know.
        InvalidArgumentError: ``full`` is false, and commits since the last vacuum were cleaned up
            (DELTA_CANNOT_VACUUM_LITE); the retention is negative, or the table's retention is not an interval.
        VersionNotFoundError: a version of ``keep_versions`` does not exist, or was cleaned up.
        LogCorruptedError: an action's deletion vector does not name the file that stores it, so vacuum cannot keep it.
    """
    configured = retention(snapshot.configuration, snapshot.store.root)
    retention_ms = configured if retention_hours is None else _retention_ms(retention_hours, snapshot)
    if enforce_retention_duration and retention_ms < configured:
        raise RetentionError(
            f"a retention of {retention_hours} hours is shorter than the table's {configured / _HOUR:g} hours",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Pass enforce_retention_duration=False if every reader and writer started within these hours, "
            f"or set {DELETED_FILE_RETENTION.key} by {SET_BY}",
        )
    moment = clock.now() if now is None else int(now.timestamp() * 1000)
    # The snapshot is loaded after the listing, so files that were committed during the listing are known to be live.
    listing = list_objects(snapshot.store) if full else None
    latest = newest(snapshot)
    latest.check_writable()
    tombstones = latest.tombstones
    if retention_ms > configured:
        tombstones = pa.concat_tables([tombstones, *_dropped_tombstones(latest, moment - retention_ms)])
    kept_files = [load_snapshot(latest.store, version).files for version in keep_versions]
    cutoff = moment - retention_ms
    records = recorded_files(latest.store, moment, cutoff)
    files, change_files = pa.concat_tables([latest.files, *kept_files]), None
    if listing is not None:
        objects, links = listing.objects, listing.links
    else:
        first = first_version_to_read(latest.store)
        older = removes_below_checkpoint(latest, first=first)
        tombstones = pa.concat_tables([tombstones, *(table.select(tombstones.column_names) for table in older)])
        change_files = change_file_paths(latest.store, cutoff, first)
        needed = pa.chunked_array([*referenced_paths(files, latest.store), *records.paths.chunks], pa.string())
        objects, links = removed_objects(latest.store, tombstones, change_files, cutoff, needed)
    plan = plan_vacuum(
        objects,
        files,
        tombstones,
        cutoff,
        store=latest.store,
        full=full,
        change_files=change_files,
        links=links,
        spared=records.paths,
        partition_columns=list(latest.layout.partition_keys.values()),
    )
    paths: list[str] = plan["path"].to_pylist()
    due = {"numFilesToDelete": len(paths), "sizeOfDataToDelete": total_size(plan)}

    def result(version: int | None, deleted: int) -> VacuumResult:
        metrics = {**due, "numDeletedFiles": deleted}
        return VacuumResult(latest.store.root, latest.version, version, metrics, dry_run, retention_hours, tuple(paths))

    def remember(records: RecordedFiles) -> None:
        # Removed files that pins and clones keep are in later commits than the version that they need.
        oldest = [*keep_versions, *([] if records.oldest_version is None else [records.oldest_version])]
        _remember(latest, cutoff, most=min(oldest, default=latest.version))

    if dry_run:
        return result(None, 0)
    if not paths:
        latest.store.delete_many(records.unneeded_records)
        remember(records)
        return result(None, 0)
    parents = pc.replace_substring_regex(objects["path"], "[^/]*$", "")
    folders = {"numVacuumedDirectories": pc.count_distinct(parents).as_py()}
    local_time = max(moment, clock.now())
    version = _log(
        latest,
        "VACUUM START",
        {
            "retentionCheckEnabled": enforce_retention_duration,
            "defaultRetentionMillis": configured,
            "specifiedRetentionMillis": retention_ms,
        },
        due,
        commit_properties,
    )
    started = latest.update()
    if now is None:
        try:
            if started.version >= version:
                clock.check(started.store, local_time, started.modified)
            else:  # the store's listing does not show the commit yet
                clock.check_by_commit(started.store, local_time, version)
        except RetentionError:
            _log(started, "VACUUM END", {"status": "FAILED"}, {"numDeletedFiles": 0, **folders}, commit_properties)
            raise
    records = recorded_files(started.store, moment, cutoff)
    plan = _still_unneeded(plan, started, records.paths, is_changed=version > latest.version + 1)
    paths = plan["path"].to_pylist()
    started.store.delete_many(records.unneeded_records)
    for position in range(0, len(plan), _DELETED_AT_ONCE):
        batch = plan.slice(position, _DELETED_AT_ONCE)
        started.store.delete_many(batch["path"].to_pylist())
        if on_deleted is not None:
            on_deleted(batch)
    metrics = {"numDeletedFiles": len(paths), **folders}
    end = _log(started.update(), "VACUUM END", {"status": "COMPLETED"}, metrics, commit_properties)
    remember(records)
    return result(end, len(paths))


def _remember(latest: Snapshot, cutoff: int, *, most: int) -> None:
    """Write up to which version, at most ``most``, the removed files are deleted, so that a plan reads less commits."""
    properties = effective_properties(latest.configuration, latest.protocol)
    with suppress(VersionNotFoundError):  # a concurrent cleanup
        version = newest_at(latest.store, list_commits(latest.store), cutoff, properties)
        if version is not None:
            write_last_vacuumed(latest.store, max(last_vacuumed(latest.store) or 0, min(version, most)))


def _still_unneeded(plan: pa.Table, started: Snapshot, recorded: pa.ChunkedArray, *, is_changed: bool) -> pa.Table:
    """The objects of a plan without those that a later restore, clone or pin needs.

    Args:
        recorded: the paths that pins and clones need now.
        is_changed: whether other writers have committed since the plan was made.
    """
    live = referenced_paths(started.files, started.store) if is_changed else []
    needed = pa.chunked_array([*live, *recorded.chunks], type=pa.string())
    return plan.filter(pc.invert(pc.is_in(plan["path"], value_set=needed)))


def newest(snapshot: Snapshot) -> Snapshot:
    """The latest version. ``Snapshot.update`` alone stops at an old version if the commits after it were cleaned up."""
    latest = snapshot.update()
    version = latest_version(latest.store)
    return latest if version is None or latest.version >= version else load_snapshot(latest.store)


def _retention_ms(retention_hours: float, snapshot: Snapshot) -> int:
    is_number = isinstance(retention_hours, int | float) and not isinstance(retention_hours, bool)
    if not is_number or not 0 <= retention_hours <= _LONGEST_HOURS:
        raise InvalidArgumentError(
            f"retention_hours is {retention_hours!r}; expected a number from 0 to 1e10",
            table=snapshot.store.root,
            hint="Pass 0 or more hours, or None for the table's own retention",
        )
    return int(retention_hours * _HOUR)


def _dropped_tombstones(latest: Snapshot, since: int) -> list[pa.Table]:
    """Tombstones written after ``since`` in commits up to the latest checkpoint, which may no longer have them."""
    young = [unexpired(table, since) for table in removes_below_checkpoint(latest, since)]
    return [table.select(latest.tombstones.column_names) for table in young]


def _log(
    snapshot: Snapshot,
    operation: str,
    parameters: dict[str, object],
    metrics: Mapping[str, Any],
    properties: CommitProperties | None,
) -> int:
    transaction = OptimisticTransaction(snapshot, snapshot.store, operation, parameters)
    transaction.metrics.update(metrics)
    return version_of(transaction.commit(properties))
