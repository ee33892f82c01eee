"""Remove the row ids of a table's files, before the feature rowTracking is dropped."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from lakehouse_lib.errors import MetadataChangedError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.operations import replanning
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.optimize.file_update import FileUpdate
from lakehouse_lib.protocol.table_properties import ROW_TRACKING, ROW_TRACKING_SUSPENDED
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties

_FILES_IN_A_COMMIT = 100_000


def remove_row_ids(snapshot: Snapshot, properties: CommitProperties | None, *, batch: int = _FILES_IN_A_COMMIT) -> None:
    """Suspend row tracking, and add all files with row ids again without them. No data file is read or written.

    Row ids must not stay in the log. If row tracking was added again later, new rows would get the same ids.

    Args:
        properties: the properties of each commit, without application transactions.
        batch: the maximum number of files in a commit; default 100,000.

    Raises:
        CommitFailedError: a concurrent change of metadata or protocol; MetadataChangedError if it resumed row tracking.
    """
    if not ROW_TRACKING_SUSPENDED.is_on(snapshot.configuration):
        suspended = {ROW_TRACKING.key: "false", ROW_TRACKING_SUSPENDED.key: "true"}
        metadata = replace(snapshot.metadata, configuration={**snapshot.configuration, **suspended})
        parameters = {"properties": suspended}
        commit_change(snapshot, "SET TBLPROPERTIES", parameters, metadata=metadata, commit_properties=properties)
        snapshot = snapshot.update()
    for number in count():
        if not have_row_ids(snapshot):
            return
        if row_tracking.assigns_row_ids(snapshot.protocol, snapshot.metadata):
            raise MetadataChangedError(
                f"{ROW_TRACKING_SUSPENDED.key} was set to false while row ids were removed",
                table=snapshot.store.root,
                version=snapshot.version,
                hint="Drop the feature again, or keep row tracking",
            )
        files = row_tracking.without_ids(row_tracking.with_ids(snapshot.files).slice(0, batch))
        replanning.commit_change(
            snapshot, FileUpdate("ROW TRACKING UNBACKFILL", {"batchId": number}, files), properties
        )
        snapshot = snapshot.update()


def have_row_ids(snapshot: Snapshot) -> bool:
    """Whether a file of a version has row ids."""
    return row_tracking.have_ids(snapshot.file_columns(list(row_tracking.IDS)))
