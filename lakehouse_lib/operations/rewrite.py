"""Rewriting files without changing rows, which is what OPTIMIZE is in the log: compaction and clustering share it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.operations.files import size_summary, total_size
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import OptimisticTransaction


def rewrite_target(snapshot: Snapshot) -> WriteTarget:
    """Where the same rows go again: the table as it is, in files as large as the plan has decided."""
    return WriteTarget(
        snapshot.store,
        snapshot.schema,
        snapshot.partition_columns,
        snapshot.configuration,
        sys.maxsize,
        data_change=False,
    )


def rewrite_transaction(
    snapshot: Snapshot, parameters: Mapping[str, Any], removed: pa.Table, added: pa.Table, started: float
) -> OptimisticTransaction:
    """The transaction that exchanges ``removed`` for ``added``; ``started`` is the operation's ``time.monotonic()``."""
    transaction = OptimisticTransaction(snapshot, snapshot.store, "OPTIMIZE", parameters)
    transaction.remove(removed, data_change=False)
    transaction.add(added)
    transaction.metrics.update(
        numAddedFiles=len(added),
        numRemovedFiles=len(removed),
        numAddedBytes=total_size(added),
        numRemovedBytes=total_size(removed),
        executionTimeMs=int((time.monotonic() - started) * 1000),
    )
    return transaction


def rewrite_metrics(
    considered: int, removed: pa.Table, added: pa.Table, *, partitions: int, batches: int
) -> dict[str, Any]:
    """What delta-rs' ``optimize`` verbs return."""
    return {
        "numFilesAdded": len(added),
        "numFilesRemoved": len(removed),
        "filesAdded": size_summary(added),
        "filesRemoved": size_summary(removed),
        "partitionsOptimized": partitions,
        "numBatches": batches,
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - len(removed),
        "preserveInsertionOrder": False,
    }
