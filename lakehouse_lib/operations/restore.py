"""Restore the files, the schema, the properties and the partition columns of an earlier version, in a new commit.

The plan is an anti-join of the files of two versions by path and deletion vector. A dry run only plans. Files that are
live in both versions stay live, and no data file is read or written. As in delta-spark, the protocol keeps the features
of both versions. No row id or column id is assigned twice. If row tracking was dropped since the earlier version, row
ids do not come back. The clustering columns become those of the earlier version. Other domains and the application
transactions do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import features
from lakehouse_lib.arrow.values import literal
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.features.computed_columns.identity_columns import with_marks_of
from lakehouse_lib.features.file_layout import clustering
from lakehouse_lib.log.commits.commit_file import read_commit
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.operations.missing_files import missing_files_error, missing_paths
from lakehouse_lib.operations.optimize.file_update import without_data_change
from lakehouse_lib.operations.results import RestoreResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.upkeep.running_vacuum import check_no_vacuum
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.protocol.table_properties import MAX_COLUMN_ID
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests_ahead
from lakehouse_lib.transaction import version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

_WAY_OUT = (
    "Nothing was changed. Restore the files from a backup, or restore a later version; ignore_missing_files=True "
    "restores the version without their rows"
)


class RestoredFiles(NamedTuple):
    """The files tables of a restore.

    Attributes:
        added, removed: the files that are live in only one of the two versions.
        with_ids: files that are live in both versions, with the row ids that only the earlier version has.
    """

    added: pa.Table
    removed: pa.Table
    with_ids: pa.Table


def restore(
    snapshot: Snapshot,
    target: int | str | datetime,
    *,
    ignore_missing_files: bool = False,
    dry_run: bool = False,
    commit_properties: CommitProperties | None = None,
) -> RestoreResult:
    """Make the table equal to an earlier version. If the table is equal already, nothing is committed.

    Args:
        snapshot: any version of the table.
        target: the version; or the version at a time: a datetime or ISO 8601 text, without a zone: UTC.
        ignore_missing_files: leave out files of the version that do not exist any more, instead of raising
            ObjectNotFoundError. A file is also left out if its deletion vector does not exist, because its deleted rows
            are not known.
        dry_run: only return the metrics and the missing files; missing files raise no error.

    Returns:
        Metrics: numRestoredFiles, restoredFilesSize, numRemovedFiles, removedFilesSize, numOfFilesAfterRestore,
        tableSizeAfterRestore.

    Raises:
        VersionNotFoundError: the version or time does not exist, or was cleaned up.
        InvalidArgumentError: the target is not a version or a time.
        ObjectNotFoundError: files of the version do not exist, for example because vacuum has deleted them.
        UnsupportedFeatureError: this library cannot write one of the versions, or the features of both together.
        DeltaProtocolError: the restore removes files, and the table is append-only.
        CommitFailedError: another writer committed first; or a vacuum is running, or was killed less than a day ago,
            and the latest version does not have all files of the version.
        RetentionError: a vacuum may be running, and this machine's clock is ahead of the store's.
        CommitUnknownError: the store gave no answer to the commit.
    """
    latest = newest(snapshot)
    store = latest.store
    restored, parameters = _version_to_restore(latest, target)
    latest.check_writable()
    restored.check_writable()
    loses_row_ids = _was_row_tracking_dropped(restored, latest)
    restored_files = row_tracking.without_ids(restored.files) if loses_row_ids else restored.files
    files = files_to_restore(latest.files, restored_files, store)
    if len(files.added) and not dry_run:
        check_no_vacuum(restored, latest, "Nothing was changed")
    missing = missing_paths(files.added, store)
    if len(missing):
        if not ignore_missing_files and not dry_run:
            raise missing_files_error(missing, restored, _WAY_OUT)
        files = files._replace(added=files.added.filter(pc.invert(pc.is_in(files.added["path"], value_set=missing))))
    if len(files.removed):
        features.check_removal(latest.metadata, table=store.root, version=latest.version)
    metadata = restored_metadata(latest.metadata, restored.metadata, keeps_row_tracking=loses_row_ids)
    names = features.writer_features(restored.protocol) | features.reader_features(restored.protocol)
    if loses_row_ids:
        names -= {row_tracking.FEATURE.name}
    domains = clustering.domain_after(latest.domains, restored.domains)
    metrics = _metrics(files, latest.file_columns(["size"]))
    change = TableChange(
        "RESTORE",
        parameters,
        added=pa.concat_tables([files.added, files.with_ids]),
        removed=files.removed,
        metadata=metadata,
        features=names,
        domains=domains,
        reads=(None,),
        keeps_row_ids=True,
        is_exclusive=True,
        metrics=metrics,
    )
    version = None
    is_equal = metadata == latest.metadata and not domains and not any(map(len, files))
    if not dry_run and not is_equal:
        version = version_of(change.on(latest, store).commit(commit_properties))
    return RestoreResult(
        store.root, latest.version, version, metrics, dry_run, restored.version, tuple(missing.to_pylist())
    )


def files_to_restore(current: pa.Table, target: pa.Table, store: ObjectStore) -> RestoredFiles:
    """The files that are live in only one of two versions, as the adds and removes of a restore. Reads nothing.

    A file whose deletion vector differs is removed with the latest vector and added with the earlier vector.

    Args:
        current, target: the files (FILE_SCHEMA) of the latest version and of the version to restore.
    """
    current_keys, target_keys = (file_keys(files.select(KEY_COLUMNS), store) for files in (current, target))
    # A drop of row tracking that was interrupted has removed row ids from live files.
    lack_ids = pc.is_in(target_keys, value_set=current_keys.filter(current["baseRowId"].is_null().combine_chunks()))
    with_ids = target.filter(pc.and_(lack_ids, target["baseRowId"].is_valid()))
    added = target.filter(pc.invert(pc.is_in(target_keys, value_set=current_keys)))
    change = pa.repeat(literal(True, pa.bool_()), len(added))
    added = added.set_column(FILE_SCHEMA.get_field_index("dataChange"), FILE_SCHEMA.field("dataChange"), change)
    removed = current.filter(pc.invert(pc.is_in(current_keys, value_set=target_keys)))
    return RestoredFiles(added, removed, without_data_change(with_ids))


def restored_metadata(current: Metadata, target: Metadata, *, keeps_row_tracking: bool = False) -> Metadata:
    """The metadata of an earlier version, for a commit after the latest version.

    The table keeps its id. The highest column id does not decrease. Otherwise a later column could get the id of a
    column in files of other versions. High water marks of identity columns do not move back either.

    Args:
        keeps_row_tracking: whether the properties of row tracking stay those of the latest version.
    """
    configuration = dict(target.configuration)
    if keeps_row_tracking:
        for key in sorted({*row_tracking.PROPERTIES, *row_tracking.COLUMN_PROPERTIES}):
            configuration.pop(key, None)
            if key in current.configuration:
                configuration[key] = current.configuration[key]
    column_ids = [MAX_COLUMN_ID.of(metadata.configuration) for metadata in (current, target)]
    highest = max((number for number in column_ids if number is not None), default=None)
    if highest is not None:
        configuration[MAX_COLUMN_ID.key] = str(highest)
    schema_string = with_marks_of(target.schema_string, current.schema_string)
    return replace(
        target,
        id=current.id,
        created_time=current.created_time,
        configuration=configuration,
        schema_string=schema_string,
    )


def _version_to_restore(latest: Snapshot, target: object) -> tuple[Snapshot, dict[str, Any]]:
    """The version to restore, and commitInfo's operationParameters."""
    if isinstance(target, str | datetime):
        moment = moment_of(target, latest.store.root)
        restored = load_snapshot(latest.store, timestamp=moment)
        return restored, {"version": restored.version, "timestamp": moment.isoformat()}
    if type(target) is not int:
        raise InvalidArgumentError(
            f"target is {target!r}; expected a version or a time",
            table=latest.store.root,
            hint="Pass a whole number, a datetime or ISO 8601 text",
            code="DELTA_INVALID_VERSION",
        )
    return load_snapshot(latest.store, target), {"version": target}


def _was_row_tracking_dropped(restored: Snapshot, latest: Snapshot) -> bool:
    """Whether the feature rowTracking was dropped after the earlier version, even if it was added again.

    A drop also removes the high water mark. So rows of the latest version may have the ids of rows of the earlier one.
    """
    supports = row_tracking.FEATURE.is_supported
    if not supports(restored.protocol) or not supports(latest.protocol):
        return supports(restored.protocol)
    # A drop removes the names of the materialized columns, and new names contain a UUID.
    before, after = (
        [side.configuration.get(key) for key in row_tracking.COLUMN_PROPERTIES] for side in (restored, latest)
    )
    if before == after and None not in before:
        return False
    store, versions = latest.store, range(restored.version + 1, latest.version + 1)
    commits = map_requests_ahead(store, lambda version: read_commit(store, version), versions)
    return any(commit.protocol is not None and not supports(commit.protocol) for commit in commits)


def _metrics(files: RestoredFiles, before: pa.Table) -> Mapping[str, int]:
    """The operationMetrics of a restore, under delta-spark's names."""
    return {
        "numRestoredFiles": len(files.added),
        "restoredFilesSize": total_size(files.added),
        "numRemovedFiles": len(files.removed),
        "removedFilesSize": total_size(files.removed),
        "numOfFilesAfterRestore": len(before) + len(files.added) - len(files.removed),
        "tableSizeAfterRestore": total_size(before) + total_size(files.added) - total_size(files.removed),
    }
