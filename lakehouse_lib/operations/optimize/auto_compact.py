"""Auto-compaction: a write merges the small files of the partitions that it wrote to.

Auto-compaction runs after the commit of a write, if the table has ``delta.autoOptimize.autoCompact``. It makes a
separate commit.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.operations.files import partition_codes
from lakehouse_lib.operations.optimize.compact import CompactPlan, compaction_bins, rewrite_bins, small_files
from lakehouse_lib.operations.optimize.rewrite import run_with_replanning
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.protocol.table_properties import AUTO_COMPACT, TARGET_FILE_SIZE
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.threads import ProcessLock
from lakehouse_lib.transaction.commit_properties import CommitProperties

logger = logging.getLogger(__name__)

#: A partition with fewer small files is not compacted (delta-spark's autoCompact.minNumFiles).
MIN_FILES = 50
#: The largest target size in bytes (delta-spark's autoCompact.maxFileSize).
MAX_FILE_SIZE = 128 << 20
#: The most partitions that are compacted after one write (delta-spark's autoCompact.maxNumModifiedPartitions).
MAX_PARTITIONS = 128

_lock = ProcessLock()
#: The tables that a process compacts now, after a write, with the number of the process. A forked process inherits the
#: entries of its parent.
_tables: set[tuple[int, str]] = set()


def compact_after_write(
    result: ChangeResult,
    added: pa.Table,
    configuration: Mapping[str, str],
    latest: Callable[[], Snapshot],
    engine: Engine,
    properties: CommitProperties | None,
) -> ChangeResult:
    """Compact the partitions that a committed write added files to, if the table's properties say so.

    A failure is logged and does not fail the write. Without the property, nothing is read or requested.

    Args:
        result: the result of the write.
        added: a files table of the files that the write added.
        configuration: the table's properties.
        latest: a function that returns the snapshot of the latest version.
        properties: the commit properties of the write. Only their post-commit hooks apply to the compaction.

    Returns:
        ``result``; with the metric ``autoCompact`` if files were merged (``version``, ``numAddedFiles``,
        ``numRemovedFiles``) or if the compaction failed (``error``: the code of the error).
    """
    if result.version is None or not len(added) or not AUTO_COMPACT.is_on(configuration):
        return result
    with _reserved(result.table) as is_free:
        if not is_free:
            return result
        try:
            merged = auto_compact(latest(), added, engine, properties)
        except Exception as error:
            logger.warning("auto-compaction failed after version %d of %s", result.version, result.table, exc_info=True)
            code = error.code if isinstance(error, DeltaError) else type(error).__name__
            return _with_note(result, {"error": code})
    if merged.version is None:
        return result
    counts = {name: merged.metrics[name] for name in ("numAddedFiles", "numRemovedFiles")}
    return _with_note(result, {"version": merged.version, **counts})


def auto_compact(
    snapshot: Snapshot, added: pa.Table, engine: Engine, properties: CommitProperties | None = None
) -> ChangeResult:
    """Merge the small files of each partition that has a file of ``added`` and at least ``MIN_FILES`` small files.

    Raises:
        CommitFailedError: a concurrent change of schema or protocol, or other writers removed a file of every bin in
            each attempt (``rewrite.run_with_replanning``).
    """
    started = time.monotonic()
    snapshot.check_writable()
    size = auto_target_size(snapshot.configuration, snapshot.store.root)
    parameters = {"predicate": "[]", "zOrderBy": "[]", "auto": True, "targetSize": size}
    hooks = (
        None
        if properties is None
        else CommitProperties(post_commithook_properties=properties.post_commithook_properties)
    )

    def attempt(snapshot: Snapshot) -> ChangeResult:
        plan = plan_auto_compact(snapshot, added, size)
        return rewrite_bins(snapshot, engine, plan, "OPTIMIZE", parameters, started, hooks)

    return run_with_replanning(snapshot, attempt)


def auto_target_size(configuration: Mapping[str, str], table: str) -> int:
    """The target size of auto-compaction: 128 MiB, or ``delta.targetFileSize`` if that is smaller."""
    if TARGET_FILE_SIZE.key not in configuration:
        return MAX_FILE_SIZE
    return min(MAX_FILE_SIZE, TARGET_FILE_SIZE.of(configuration, table))


def plan_auto_compact(snapshot: Snapshot, added: pa.Table, target_size: int) -> CompactPlan:
    """Plan an auto-compaction. Reads only the log.

    If more than ``MAX_PARTITIONS`` partitions qualify, the partitions with the most small files are compacted.
    """
    columns = snapshot.file_columns(_COUNTED_COLUMNS)
    if not _is_in_partitions(columns, added, snapshot, target_size).any():
        return CompactPlan(len(columns), snapshot.files.slice(0, 0), (), 0)
    files = snapshot.files
    files = files.filter(bools(_is_in_partitions(files, added, snapshot, target_size)))
    codes = partition_codes(files, snapshot.layout)
    bins = compaction_bins(files, codes, target_size)
    return CompactPlan(len(columns), files, bins, len(np.unique(codes[[rows[0] for rows in bins]])) if bins else 0)


_COUNTED_COLUMNS = ("partitionValues", "size", "tags")


def _is_in_partitions(files: pa.Table, added: pa.Table, snapshot: Snapshot, target_size: int) -> NDArray[np.bool_]:
    """Which files are in the partitions to compact."""
    both = pa.concat_tables([files.select(["partitionValues"]), added.select(["partitionValues"])])
    codes = partition_codes(both, snapshot.layout)
    codes, written = codes[: len(files)], np.unique(codes[len(files) :])
    counts = np.bincount(codes[small_files(files, target_size)], minlength=int(written[-1]) + 1)[written]
    due = np.argsort(-counts, kind="stable")[:MAX_PARTITIONS]
    return np.isin(codes, written[due[counts[due] >= MIN_FILES]])


@contextmanager
def _reserved(table: str) -> Iterator[bool]:
    """Reserve a table for one compaction of this process; False if another one is running."""
    reservation = os.getpid(), table
    with _lock:
        is_free = reservation not in _tables
        _tables.add(reservation)
    try:
        yield is_free
    finally:
        if is_free:
            with _lock:
                _tables.discard(reservation)


def _with_note(result: ChangeResult, note: Mapping[str, Any]) -> ChangeResult:
    return replace(result, metrics={**result.metrics, "autoCompact": note})
