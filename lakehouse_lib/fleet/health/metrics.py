"""Health metrics of a table, computed from its log only. For a table of a million files this takes seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, numbers_of
from lakehouse_lib.engine.base import is_small
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.health.runs import unmerged_runs
from lakehouse_lib.fleet.health.sizes import SizeBucket, partition_skew, percentile, size_histogram
from lakehouse_lib.fleet.health.writes import Writes, writes_of
from lakehouse_lib.fleet.log_upkeep import checkpoint_lag, reclaimable_files, replayed_commits
from lakehouse_lib.fleet.overlap import column_bounds, depths_of, skipped_shares
from lakehouse_lib.log import clock
from lakehouse_lib.log.retention.tombstones import retention
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.operations.files import has_many_deleted_rows, partition_codes, total_size
from lakehouse_lib.operations.optimize.compact import compaction_bins
from lakehouse_lib.operations.optimize.z_order.selection import files_to_z_order
from lakehouse_lib.operations.optimize.z_order.z_order import default_columns
from lakehouse_lib.protocol.table_properties import CHECKPOINT_INTERVAL, TARGET_FILE_SIZE, TableProperty
from lakehouse_lib.schema import StructType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import Bounds, WrittenStatistics


@dataclass(frozen=True)
class Health:
    """Health metrics of one version of a table. Sizes are in bytes, ages in seconds; None: the log has no value.

    Attributes:
        timestamp: the commit timestamp of the version, in ms since the epoch.
        rows: the number of rows that are not deleted; None if a file has no statistics.
        target_file_size: the target size; ``small_files`` are below half of it.
        clustered_by: the columns of the metrics ``clustering``, ``skipping``, ``unclustered_files``, ``unmerged_runs``.
        p05_file_size, p95_file_size: the 5th and the 95th percentile of the file sizes.
        size_histogram: the number and the bytes of the files by size.
        compactable_files: files that compaction would rewrite: small files that can be joined, and files in which a
            deletion vector hides more than 5% of the rows.
        joinable_files: the files of ``compactable_files`` that would be joined with other files.
        unclustered_files: files that z_order by ``clustered_by`` would rewrite; 0 without columns.
        unmerged_runs: the number of runs of z_order by ``clustered_by`` that have files in a partition, except the
            first run, summed over the partitions.
        uncounted_files: files for which the log lacks the number of rows.
        largest_partition_files: the number of files in the largest partition; all files if the table has no partitions.
        largest_partition_bytes, median_partition_bytes: the sizes of the largest and of the median partition.
        largest_partition_share: the share of the table's bytes that is in the largest partition.
        deleted_rows: the number of rows that deletion vectors hide.
        deleted_row_share: the share of these rows among all rows in the files; None if a file has no statistics.
        files_with_many_deleted_rows: files in which a deletion vector hides more than 5% of the rows.
        tombstones, tombstone_bytes: removed files for which the log still has tombstones.
        reclaimable_files, reclaimable_bytes: removed files past the retention, which no vacuum has deleted yet
            (``log_upkeep.reclaimable_files``). ``is_reclaimable_partial``: older commits were not read.
        checkpoint_version: the version of the checkpoint from which this version is built, and ``checkpoint_age``: its
            age.
        commits_since_checkpoint, replayed_bytes: the number and the size of the commits since this checkpoint, which a
            reader replays.
        checkpoint_lag: a checkpoint is due at 1.0 or more (``log_upkeep.checkpoint_lag``).
        oldest_version, versions, log_bytes: the oldest commit in the log, and the number and the size of all commits.
        columns, partition_columns: the number of columns, and the names of the partition columns.
        clustering: by column of ``clustered_by``, the mean number of files that may hold the same value.
        skipping: by column of ``clustered_by``, the mean share of files that a query of one value skips
            (``overlap.skipped_shares``). ``clustering`` and ``skipping`` lack partition columns.
        writes: the commits of the last days, and their writers.
    """

    table: str
    version: int
    timestamp: int
    files: int
    bytes: int
    rows: int | None
    target_file_size: int
    clustered_by: tuple[str, ...]
    mean_file_size: int | None
    median_file_size: int | None
    p05_file_size: int | None
    p95_file_size: int | None
    size_histogram: tuple[SizeBucket, ...]
    small_files: int
    small_file_share: float
    compactable_files: int
    joinable_files: int
    unclustered_files: int
    unmerged_runs: int
    uncounted_files: int
    partitions: int
    largest_partition_files: int
    largest_partition_bytes: int
    median_partition_bytes: int
    largest_partition_share: float
    deleted_rows: int
    deleted_row_share: float | None
    files_with_many_deleted_rows: int
    tombstones: int
    tombstone_bytes: int
    reclaimable_files: int
    reclaimable_bytes: int
    is_reclaimable_partial: bool
    checkpoint_version: int | None
    commits_since_checkpoint: int
    replayed_bytes: int
    checkpoint_lag: float
    checkpoint_age: float | None
    oldest_version: int | None
    versions: int
    log_bytes: int
    columns: int
    partition_columns: tuple[str, ...]
    min_reader_version: int
    min_writer_version: int
    features: tuple[str, ...]
    clustering: Mapping[str, float]
    skipping: Mapping[str, float]
    writes: Writes

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def health(
    snapshot: Snapshot,
    *,
    target_file_size: int | None = None,
    clustered_by: Sequence[str] = (),
    retention_hours: float | None = None,
    now: float | None = None,
) -> Health:
    """The health metrics of a version.

    Reads the log of the version, the newest commits (at most ``writes.MOST_COMMITS``), and the commits past the
    retention since the last vacuum (at most ``log_upkeep.MOST_COMMITS``).

    Args:
        target_file_size: bytes; None: ``delta.targetFileSize``, else 100 MiB.
        clustered_by: columns for ``clustering``, ``skipping``, ``unclustered_files`` and ``unmerged_runs``; empty: the
            clustering columns of the table.
        retention_hours: the retention of removed files; None: ``delta.deletedFileRetentionDuration``, else a week.
        now: seconds since the epoch; None: this machine's clock.

    Raises:
        InvalidArgumentError: a column of ``clustered_by`` does not exist or has no order; the size is not a positive
            number of bytes; or ``retention_hours`` is None, and ``delta.deletedFileRetentionDuration`` is not valid.
    """
    if target_file_size is not None and (type(target_file_size) is not int or target_file_size < 1):
        raise InvalidArgumentError(
            f"target_file_size is {target_file_size!r}; expected a positive number of bytes",
            table=snapshot.store.root,
            hint="Give a whole number from 1 on, or None for the table's own target size",
        )
    now_ms = clock.now() if now is None else int(now * 1000)
    clustered_by = tuple(clustered_by) or default_columns(snapshot)
    files, store, protocol = _files(snapshot, is_clustered=bool(clustered_by)), snapshot.store, snapshot.protocol
    target = _property(TARGET_FILE_SIZE, snapshot) if target_file_size is None else target_file_size
    sizes = numbers_of(files["size"], np.int64)
    small = is_small(sizes, target)
    partition = partition_codes(files, snapshot.layout)
    skew = partition_skew(partition, sizes)
    compactable = compaction_bins(files, partition, target)
    bounds = column_bounds(snapshot, clustered_by)
    depths = depths_of(bounds)
    unclustered = files_to_z_order(snapshot, files, clustered_by, target).parts if clustered_by else ()
    records = _records(snapshot, bounds)
    counted_rows = None if records.null_count else int(pc.sum(records).as_py() or 0)
    deleted = int(pc.sum(pc.struct_field(files["deletionVector"], "cardinality")).as_py() or 0)
    commits = list_commits(store)
    replayed = replayed_commits(snapshot, commits)
    retention_ms = (
        retention(snapshot.configuration, store.root) if retention_hours is None else int(retention_hours * 3_600_000)
    )
    reclaimable = reclaimable_files(snapshot, retention_ms, now_ms, commits)
    checkpoint_version = snapshot.checkpoint_version
    checkpoint_time = next((commit.modified for commit in commits if commit.version == checkpoint_version), None)
    return Health(
        table=store.root,
        version=snapshot.version,
        timestamp=snapshot.timestamp,
        files=len(sizes),
        bytes=int(sizes.sum()),
        rows=None if counted_rows is None else counted_rows - deleted,
        target_file_size=target,
        clustered_by=clustered_by,
        mean_file_size=int(sizes.mean()) if len(sizes) else None,
        median_file_size=percentile(sizes, 50),
        p05_file_size=percentile(sizes, 5),
        p95_file_size=percentile(sizes, 95),
        size_histogram=size_histogram(sizes),
        small_files=int(small.sum()),
        small_file_share=float(small.mean()) if len(sizes) else 0.0,
        compactable_files=sum(map(len, compactable)),
        joinable_files=sum(len(rows) for rows in compactable if len(rows) > 1),
        unclustered_files=sum(len(part.rows) for part in unclustered),
        unmerged_runs=unmerged_runs(snapshot, files, partition, clustered_by, target),
        uncounted_files=records.null_count,
        partitions=skew.partitions,
        largest_partition_files=skew.files,
        largest_partition_bytes=skew.bytes,
        median_partition_bytes=skew.median_bytes,
        largest_partition_share=skew.share,
        deleted_rows=deleted,
        deleted_row_share=None if counted_rows is None else deleted / max(counted_rows, 1),
        files_with_many_deleted_rows=int(has_many_deleted_rows(files).sum()),
        tombstones=len(snapshot.tombstones),
        tombstone_bytes=total_size(snapshot.tombstones),
        reclaimable_files=len(reclaimable.files),
        reclaimable_bytes=total_size(reclaimable.files),
        is_reclaimable_partial=reclaimable.is_partial,
        checkpoint_version=checkpoint_version,
        commits_since_checkpoint=len(replayed),
        replayed_bytes=sum(commit.size for commit in replayed),
        checkpoint_lag=checkpoint_lag(replayed, _property(CHECKPOINT_INTERVAL, snapshot)),
        checkpoint_age=None if checkpoint_time is None else max(0.0, (now_ms - checkpoint_time) / 1000),
        oldest_version=commits[0].version if commits else None,
        versions=len(commits),
        log_bytes=sum(commit.size for commit in commits),
        columns=len(snapshot.schema.names),
        partition_columns=snapshot.partition_columns,
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        features=tuple(sorted((protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset()))),
        clustering=depths,
        skipping=skipped_shares(depths, len(sizes), bounds),
        writes=writes_of(store, commits, now_ms),
    )


def _files(snapshot: Snapshot, *, is_clustered: bool) -> pa.Table:
    """The live files with the columns that the metrics need.

    The statistics are the largest column. They are read only if a file has a deletion vector, or if Z-order columns are
    given and a file has tags.
    """
    names = ["size", "partitionValues", "tags", "deletionVector", "clusteringProvider"]
    files = snapshot.file_columns(names)
    marks = ("tags", "deletionVector") if is_clustered else ("deletionVector",)
    if all(files[name].null_count == len(files) for name in marks):
        return files
    return snapshot.file_columns([*names, "stats"])


def _records(snapshot: Snapshot, bounds: Mapping[str, Bounds]) -> pa.Array:
    """The number of rows in each file, including deleted rows; null if a file has no statistics."""
    if bounds:
        return next(iter(bounds.values())).num_records
    only_records = WrittenStatistics(StructType(()), StructType(()))
    return as_array(snapshot.statistics(only_records, ())[0]["numRecords"])


def _property(item: TableProperty[int], snapshot: Snapshot) -> int:
    try:
        return item.of(snapshot.configuration)
    except InvalidArgumentError:  # writes raise this error, but metrics use the default
        return item.default


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
