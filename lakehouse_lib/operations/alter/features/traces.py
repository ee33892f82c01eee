"""The traces of features in the latest version of a table, and the functions that remove them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.features import row_tracking, type_widening
from lakehouse_lib.features.file_layout import clustering
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.operations.alter.features.mapping_removal import remove_mapping
from lakehouse_lib.operations.alter.features.row_id_removal import have_row_ids, remove_row_ids
from lakehouse_lib.operations.files import partition_codes
from lakehouse_lib.operations.optimize.compact import CompactPlan, rewrite_bins
from lakehouse_lib.operations.optimize.purge import purge
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import (
    CHECKPOINT_POLICY,
    DELETION_VECTORS,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMPS,
    MATERIALIZE_PARTITION_COLUMNS,
    TYPE_WIDENING,
)
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.type_widening import without_changes
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


def _unchanged(metadata: Metadata) -> Metadata:
    return metadata


def _never(_: object) -> bool:
    return False


@dataclass(frozen=True)
class Traces:
    """The traces of a feature.

    Attributes:
        properties: the properties that enable the feature, or belong to it; they are removed first. If ``disable`` is
            given, they are removed in the commit that drops the feature.
        domains: the domains of the feature; they are removed in the commit that drops the feature.
        disable: a function that disables the feature and removes its traces from the files; None: the feature is
            disabled by removing ``properties``.
        are_removable: False: the feature can be dropped only if the table does not use it.
        rewrite: a function that rewrites the files that need the feature, and returns the paths of these files; None:
            no file needs the feature.
        are_in_files: whether a file of a version needs the feature, as far as the log shows it.
        are_in_commit: whether a file action of a commit needs the feature.
        without_traces: returns the metadata without the traces of the feature.
    """

    properties: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    disable: Callable[[Snapshot, Engine, CommitProperties | None], object] | None = None
    are_removable: bool = True
    rewrite: Callable[[Snapshot, Engine, CommitProperties | None], pa.ChunkedArray] | None = None
    are_in_files: Callable[[Snapshot], bool] = _never
    are_in_commit: Callable[[CommitActions], bool] = _never
    without_traces: Callable[[Metadata], Metadata] = _unchanged


def _forget_ids(snapshot: Snapshot, _: Engine, properties: CommitProperties | None) -> None:
    remove_row_ids(snapshot, properties)


def _unmap(snapshot: Snapshot, engine: Engine, properties: CommitProperties | None) -> None:
    if snapshot.layout.mapping != "none":
        remove_mapping(snapshot, engine, commit_properties=properties)


def _purge(snapshot: Snapshot, engine: Engine, properties: CommitProperties | None) -> pa.ChunkedArray:
    files = snapshot.file_columns(["path", "deletionVector"])
    purge(snapshot, engine, commit_properties=properties)
    return files["path"].filter(files["deletionVector"].is_valid())


def _have_vectors(snapshot: Snapshot) -> bool:
    vectors = snapshot.file_columns(["deletionVector"])["deletionVector"]
    return int(vectors.null_count) < len(vectors)


def _name_vectors(commit: CommitActions) -> bool:
    return any(files["deletionVector"].null_count < len(files) for files in (commit.adds, commit.removes))


def _rewrite_all(snapshot: Snapshot, engine: Engine, properties: CommitProperties | None) -> pa.ChunkedArray:
    """Write every file again with the types of the table; if no type was changed, write no file."""
    has_changes = type_widening.has_changes(snapshot.configuration, snapshot.schema)
    files = snapshot.files if has_changes else snapshot.files.slice(0, 0)
    partitions = len(np.unique(partition_codes(files, snapshot.layout)))
    plan = CompactPlan(len(files), files, tuple(np.array([row]) for row in range(len(files))), partitions)
    parameters = {"predicate": "[]", "applyPurge": False}
    rewrite_bins(snapshot, engine, plan, "REORG", parameters, time.monotonic(), properties)
    return files["path"]


def _without_type_changes(metadata: Metadata) -> Metadata:
    return replace(metadata, schema_string=without_changes(Schema.from_json(metadata.schema_string)).to_json())


#: The traces of each feature, by the name of the feature.
TRACES: Mapping[str, Traces] = {
    "allowColumnDefaults": Traces(are_removable=False),
    "clustering": Traces(domains=(clustering.DOMAIN,)),
    "columnMapping": Traces(disable=_unmap),
    "deletionVectors": Traces(
        (DELETION_VECTORS.key,), rewrite=_purge, are_in_files=_have_vectors, are_in_commit=_name_vectors
    ),
    "domainMetadata": Traces(are_removable=False),
    "inCommitTimestamp": Traces(
        (IN_COMMIT_TIMESTAMPS.key, IN_COMMIT_TIMESTAMP_VERSION.key, IN_COMMIT_TIMESTAMP_TIME.key)
    ),
    "materializePartitionColumns": Traces((MATERIALIZE_PARTITION_COLUMNS.key,)),
    "rowTracking": Traces(
        (*row_tracking.PROPERTIES, *row_tracking.COLUMN_PROPERTIES),
        (row_tracking.DOMAIN,),
        disable=_forget_ids,
        are_in_files=have_row_ids,
    ),
    "typeWidening": Traces((TYPE_WIDENING.key,), rewrite=_rewrite_all, without_traces=_without_type_changes),
    "v2Checkpoint": Traces((CHECKPOINT_POLICY.key,)),
    "vacuumProtocolCheck": Traces(),
    "timestampNtz": Traces(are_removable=False),
    "variantType": Traces(are_removable=False),
    "variantType-preview": Traces(are_removable=False),
}
