"""Give row ids to the existing rows of a table without row ids (PROTOCOL.md, Row Tracking)."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pyarrow.compute as pc

from lakehouse_lib.errors import MetadataChangedError, UnsupportedFeatureError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.features.protocol_upgrade import with_features
from lakehouse_lib.operations import replanning
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.optimize.file_update import FileUpdate
from lakehouse_lib.protocol.table_properties import ROW_TRACKING, ROW_TRACKING_SUSPENDED
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.transaction.commit_properties import CommitProperties

_FILES_IN_A_COMMIT = 100_000


def backfill_row_ids(
    snapshot: Snapshot, *, commit_properties: CommitProperties | None = None, batch: int = _FILES_IN_A_COMMIT
) -> Snapshot:
    """Give row ids to all files that have none, and return the new version. No data file is read or written.

    The first commit adds the feature rowTracking to the protocol. From then on, the commits of all writers assign row
    ids. If row tracking is suspended, for example by a drop of the feature that was interrupted, a commit resumes it.
    The next commits add the files without row ids again, with row ids. If the backfill is interrupted, call it again.
    It continues with the files that still have no row ids.

    Args:
        commit_properties: the properties of each commit. Their application transactions are ignored.
        batch: the maximum number of files in a commit; default 100,000.

    Raises:
        UnsupportedFeatureError: a file has no row count in its statistics.
        CommitFailedError: a concurrent change of metadata or protocol; MetadataChangedError if it suspended row
            tracking.
    """
    if not _without_ids(snapshot):
        return snapshot
    uncounted = num_records(snapshot.files).null_count
    if uncounted:
        raise UnsupportedFeatureError(
            f"{ROW_TRACKING.key} cannot be set (rowTracking): {uncounted} of {snapshot.file_count} files have no row "
            "count",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="First call optimize.statistics(), which reads row counts from the files",
        )
    properties = None if commit_properties is None else replace(commit_properties, app_transactions=None)
    protocol = with_features(snapshot.protocol, [row_tracking.FEATURE.name])
    if protocol != snapshot.protocol:
        versions = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
        commit_change(
            snapshot, "UPGRADE PROTOCOL", {"newProtocol": versions}, protocol=protocol, commit_properties=properties
        )
        snapshot = snapshot.update()
    if ROW_TRACKING_SUSPENDED.is_on(snapshot.configuration):
        resumed = {ROW_TRACKING_SUSPENDED.key: "false"}
        metadata = replace(snapshot.metadata, configuration={**snapshot.configuration, **resumed})
        parameters = {"properties": resumed}
        commit_change(snapshot, "SET TBLPROPERTIES", parameters, metadata=metadata, commit_properties=properties)
        snapshot = snapshot.update()
    for number in count():
        if not _without_ids(snapshot):
            return snapshot
        if not row_tracking.assigns_row_ids(snapshot.protocol, snapshot.metadata):
            raise MetadataChangedError(
                "row tracking was suspended or dropped while files got row ids",
                table=snapshot.store.root,
                version=snapshot.version,
                hint=f"Set {ROW_TRACKING.key} again, after the other writer has finished",
            )
        files = snapshot.files
        next_files = files.filter(pc.is_null(files["baseRowId"])).slice(0, batch)
        change = FileUpdate("ROW TRACKING BACKFILL", {"batchId": number}, next_files)
        replanning.commit_change(snapshot, change, properties)
        snapshot = snapshot.update()
    raise AssertionError("count() does not end")


def _without_ids(snapshot: Snapshot) -> int:
    return int(snapshot.file_columns(["baseRowId"])["baseRowId"].null_count)
