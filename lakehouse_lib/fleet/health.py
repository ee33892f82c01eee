"""How healthy a table is, from its log alone: no data file is opened, so a table of a million files takes seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import literal, numbers_of
from lakehouse_lib.engine.base import is_small
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.overlap import mean_files_at_a_point
from lakehouse_lib.log import clock
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.operations.files import has_many_deleted_rows, partition_codes, record_count, total_size
from lakehouse_lib.operations.optimize.clustering.selection import files_to_cluster, is_clustered
from lakehouse_lib.operations.optimize.compact import compaction_bins
from lakehouse_lib.protocol.table_properties import DELETED_FILE_RETENTION, TARGET_FILE_SIZE
from lakehouse_lib.snapshot import Snapshot


@dataclass(frozen=True)
class Health:
    """A table at one version. Sizes in bytes, ages in seconds; None where the log does not say.

    Attributes:
        rows: None when a file has no statistics.
        target_file_size: what files are measured against.
        small_files: files below half of it.
        p05_file_size, p95_file_size: percentiles, between which nine files of ten lie.
        largest_partition_files: files of the fullest partition (all files without partitions).
        compactable_files: files that compaction would rewrite: small ones that have others to join, and those of which
            more than 5% of the rows are deleted by a deletion vector.
        unclustered_files: files that clustering by the columns asked for would rewrite; 0 without such columns.
        tombstones: removed files the log remembers, and their bytes.
        reclaimable_files: those of them past the table's retention, which vacuum would take. The log does not say
            whether one already has: they are forgotten at the next checkpoint.
        checkpoint_version: the newest checkpoint the version is built from; commits and age since then.
        versions: commits still in the log, and the oldest of them.
        clustering: per column asked for, the mean number of files that may hold one value of it.
    """

    table: str
    version: int
    timestamp: int
    files: int
    bytes: int
    rows: int | None
    target_file_size: int
    mean_file_size: int | None
    median_file_size: int | None
    p05_file_size: int | None
    p95_file_size: int | None
    small_files: int
    small_file_share: float
    compactable_files: int
    unclustered_files: int
    partitions: int
    largest_partition_files: int
    tombstones: int
    tombstone_bytes: int
    reclaimable_files: int
    reclaimable_bytes: int
    checkpoint_version: int | None
    commits_since_checkpoint: int
    checkpoint_age: float | None
    oldest_version: int | None
    versions: int
    min_reader_version: int
    min_writer_version: int
    features: tuple[str, ...]
    clustering: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "features": list(self.features), "clustering": dict(self.clustering)}


def health(
    snapshot: Snapshot,
    *,
    target_file_size: int | None = None,
    clustered_by: Sequence[str] = (),
    now: float | None = None,
) -> Health:
    """Measure a version of a table.

    Args:
        target_file_size: bytes a file should have; None: ``delta.targetFileSize``, else 100 MiB.
        clustered_by: columns whose layout to judge, from the files' min and max; columns without them are left out.
        now: seconds since the epoch; None: the clock.

    Raises:
        InvalidArgumentError: a column of ``clustered_by`` that the table does not have, a size that is not a number.
    """
    if target_file_size is not None and (type(target_file_size) is not int or target_file_size < 0):
        raise InvalidArgumentError(
            f"the target file size {target_file_size!r}", table=snapshot.store.root, hint="Give a number of bytes"
        )
    moment = clock.now() / 1000 if now is None else now
    files, store = snapshot.files, snapshot.store
    target = target_file_size or _target(snapshot.configuration)
    sizes = numbers_of(files["size"], np.int64)
    small = is_small(sizes, target)
    partition = partition_codes(files, snapshot.layout)
    counts = np.bincount(partition) if len(partition) else np.zeros(0, dtype=np.int64)
    compactable = compaction_bins(files, partition, target)
    overlap = mean_files_at_a_point(snapshot, clustered_by)
    unclustered = _unclustered(snapshot, files, partition, sizes, clustered_by, target)
    expired = _expired(snapshot, moment)
    commits = list_commits(store)
    since = snapshot.checkpoint_version
    checkpointed = next((c.modified for c in commits if c.version == since), None)
    protocol = snapshot.protocol
    return Health(
        table=store.root,
        version=snapshot.version,
        timestamp=snapshot.timestamp,
        files=len(sizes),
        bytes=int(sizes.sum()),
        rows=record_count(files),
        target_file_size=target,
        mean_file_size=int(sizes.mean()) if len(sizes) else None,
        median_file_size=_percentile(sizes, 50),
        p05_file_size=_percentile(sizes, 5),
        p95_file_size=_percentile(sizes, 95),
        small_files=int(small.sum()),
        small_file_share=float(small.mean()) if len(sizes) else 0.0,
        compactable_files=sum(map(len, compactable)),
        unclustered_files=sum(len(rows) for rows, _ in unclustered),
        partitions=int((counts > 0).sum()),
        largest_partition_files=int(counts.max(initial=0)),
        tombstones=len(snapshot.tombstones),
        tombstone_bytes=total_size(snapshot.tombstones),
        reclaimable_files=len(expired),
        reclaimable_bytes=total_size(expired),
        checkpoint_version=since,
        commits_since_checkpoint=snapshot.version - (-1 if since is None else since),
        checkpoint_age=None if checkpointed is None else max(0.0, moment - checkpointed / 1000),
        oldest_version=commits[0].version if commits else None,
        versions=len(commits),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        features=tuple(sorted((protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset()))),
        clustering=overlap,
    )


def _unclustered(
    snapshot: Snapshot,
    files: pa.Table,
    partition: NDArray[np.int64],
    sizes: NDArray[np.int64],
    columns: Sequence[str],
    target: int,
) -> list[tuple[NDArray[np.int64], int]]:
    if not columns:
        return []
    clustered = is_clustered(snapshot, files, columns, target)
    return files_to_cluster(partition, sizes, clustered, has_many_deleted_rows(files), target)


def _target(configuration: Mapping[str, str]) -> int:
    try:
        return TARGET_FILE_SIZE.of(configuration)
    except InvalidArgumentError:  # the writer will say so; a look at the table is not the place
        return TARGET_FILE_SIZE.default


def _percentile(sizes: NDArray[np.int64], share: float) -> int | None:
    return int(np.percentile(sizes, share)) if len(sizes) else None


def _expired(snapshot: Snapshot, moment: float) -> pa.Table:
    retention = DELETED_FILE_RETENTION.of(snapshot.configuration, snapshot.store.root).total_seconds()
    removed = pc.fill_null(snapshot.tombstones["deletionTimestamp"], literal(0, pa.int64()))
    return snapshot.tombstones.filter(pc.less_equal(removed, literal(int((moment - retention) * 1000), pa.int64())))
