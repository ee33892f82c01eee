"""Restore the files, the schema, the properties and the partition columns of an earlier version, in a new commit.

The plan is an anti-join of the files of two versions by path and deletion vector. A dry run only plans. Files that are
live in both versions stay live, and no data file is read or written. As in delta-spark, the protocol keeps the features
of both versions. No row id or column id is assigned twice. The clustering columns become those of the earlier version.
Other domains and the application transactions do not change.
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
from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.features.computed_columns.identity_columns import with_marks_of
from lakehouse_lib.features.file_layout import clustering
from lakehouse_lib.log.history import moment_of
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.files import total_size
from lakehouse_lib.operations.missing_files import missing_files_error, missing_paths
from lakehouse_lib.operations.results import RestoreResult
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.operations.upkeep.running_vacuum import check_no_vacuum
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata
from lakehouse_lib.protocol.table_properties import MAX_COLUMN_ID
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.transaction import version_of
from lakehouse_lib.transaction.commit_properties import CommitProperties

_WAY_OUT = (
    "Nothing was changed. Restore the files from a backup, or restore a later version; ignore_missing_files=True "
    "restores the version without their rows"
)


class RestoredFiles(NamedTuple):
    """The files tables that a restore adds and removes."""

    added: pa.Table
    removed: pa.Table


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
        UnsupportedFeatureError: this library cannot write one of the versions, or the features of both together; or the
            earlier version has row tracking, which was dropped since then.
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
    _check_row_tracking(latest, restored)
    files = files_to_restore(latest.files, restored.files, store)
    if len(files.added) and not dry_run:
        check_no_vacuum(restored, latest, "Nothing was changed")
    missing = missing_paths(files.added, store)
    if len(missing):
        if not ignore_missing_files and not dry_run:
            raise missing_files_error(missing, restored, _WAY_OUT)
        files = files._replace(added=files.added.filter(pc.invert(pc.is_in(files.added["path"], value_set=missing))))
    if len(files.removed):
        features.check_removal(latest.metadata, table=store.root, version=latest.version)
    metadata = restored_metadata(latest.metadata, restored.metadata)
    names = features.writer_features(restored.protocol) | features.reader_features(restored.protocol)
    domains = clustering.domain_after(latest.domains, restored.domains)
    metrics = _metrics(files, latest.file_columns(["size"]))
    change = TableChange(
        "RESTORE",
        parameters,
        added=files.added,
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
    is_equal = metadata == latest.metadata and not domains and not len(files.added) and not len(files.removed)
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
    added = target.filter(pc.invert(pc.is_in(target_keys, value_set=current_keys)))
    change = pa.repeat(literal(True, pa.bool_()), len(added))
    added = added.set_column(FILE_SCHEMA.get_field_index("dataChange"), FILE_SCHEMA.field("dataChange"), change)
    return RestoredFiles(added, current.filter(pc.invert(pc.is_in(current_keys, value_set=target_keys))))


def restored_metadata(current: Metadata, target: Metadata) -> Metadata:
    """The metadata of an earlier version, for a commit after the latest version.

    The table keeps its id. The highest column id does not decrease. Otherwise a later column could get the id of a
    column in files of other versions. High water marks of identity columns do not move back either.
    """
    configuration = dict(target.configuration)
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


def _check_row_tracking(latest: Snapshot, restored: Snapshot) -> None:
    """Refuse to add row tracking again: row ids that were assigned before the feature was dropped are not known."""
    feature = row_tracking.FEATURE
    if feature.is_supported(restored.protocol) and not feature.is_supported(latest.protocol):
        raise UnsupportedFeatureError(
            f"version {restored.version} has the feature {feature.name}, which was dropped since then",
            table=latest.store.root,
            version=latest.version,
            hint="Read that version, and write its rows to the table or to another table",
        )


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
