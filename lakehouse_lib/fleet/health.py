"""Health metrics of a table, computed from its log only: a table of a million files takes seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import numbers_of
from lakehouse_lib.engine.base import is_small
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.overlap import mean_files_at_a_point
from lakehouse_lib.log import clock
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.log.tombstones import are_expired, retention
from lakehouse_lib.operations.files import partition_codes, record_count, total_size
from lakehouse_lib.operations.optimize.compact import compaction_bins
from lakehouse_lib.operations.optimize.z_order.selection import Part, files_to_z_order
from lakehouse_lib.protocol.table_properties import TARGET_FILE_SIZE
from lakehouse_lib.snapshot import Snapshot


@dataclass(frozen=True)
class Health:
    """Health metrics of one version of a table. Sizes are in bytes, ages in seconds; None: the log has no value.

    Attributes:
        rows: the number of rows; None if a file has no statistics.
        target_file_size: the target size; ``small_files`` are below half of it.
        p05_file_size, p95_file_size: the 5th and the 95th percentile.
        largest_partition_files: the number of files in the largest partition (of all files, without partitions).
        compactable_files: files that compaction would rewrite: small files that can be joined, and files of which a
            deletion vector hides more than 5% of the rows.
        unclustered_files: files that z_order by ``clustered_by`` would rewrite; 0 without columns.
        tombstones, tombstone_bytes: removed files that the log still lists.
        reclaimable_files, reclaimable_bytes: tombstones past the retention, which vacuum deletes. The log does not say
            whether a vacuum already did; the next checkpoint drops them.
        checkpoint_version: the checkpoint from which the version is built. ``commits_since_checkpoint`` and
            ``checkpoint_age`` are relative to it.
        versions, oldest_version: the number of commits in the log, and the oldest of them.
        clustering: by column of ``clustered_by``, the mean number of files that may hold the same value.
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
    """The health metrics of a version.

    Args:
        target_file_size: bytes; None: ``delta.targetFileSize``, else 100 MiB.
        clustered_by: columns for ``clustering`` and ``unclustered_files``.
        now: seconds since the epoch; None: this machine's clock.

    Raises:
        InvalidArgumentError: a column of ``clustered_by`` does not exist or has no order, or the size is not a number
            of bytes.
    """
    if target_file_size is not None and (type(target_file_size) is not int or target_file_size < 0):
        raise InvalidArgumentError(
            f"target_file_size is {target_file_size!r}; expected a number of bytes",
            table=snapshot.store.root,
            hint="Give a whole number from 0 on, or None for the table's own",
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
    unclustered = _unclustered(snapshot, files, clustered_by, target)
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
        unclustered_files=sum(len(part.rows) for part in unclustered),
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
    columns: Sequence[str],
    target: int,
) -> Sequence[Part]:
    return files_to_z_order(snapshot, files, columns, target).parts if columns else ()


def _target(configuration: Mapping[str, str]) -> int:
    try:
        return TARGET_FILE_SIZE.of(configuration)
    except InvalidArgumentError:  # a writer raises this error; metrics use the default
        return TARGET_FILE_SIZE.default


def _percentile(sizes: NDArray[np.int64], share: float) -> int | None:
    return int(np.percentile(sizes, share)) if len(sizes) else None


def _expired(snapshot: Snapshot, moment: float) -> pa.Table:
    cutoff = int(moment * 1000) - retention(snapshot.configuration, snapshot.store.root)
    return snapshot.tombstones.filter(are_expired(snapshot.tombstones, cutoff))
