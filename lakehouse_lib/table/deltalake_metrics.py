"""Results of verbs in the shapes that users of the ``deltalake`` package know; ``version`` is added to each."""

from __future__ import annotations

from typing import Any

from lakehouse_lib.operations.results import ChangeResult, RepairResult

_OPTIMIZE = {
    "numFilesAdded": "numAddedFiles",
    "numFilesRemoved": "numRemovedFiles",
    **{
        name: name
        for name in (
            *("filesAdded", "filesRemoved", "partitionsOptimized", "numBatches"),
            *("totalConsideredFiles", "totalFilesSkipped"),
        )
    },
}
_DELETE = {
    "num_added_files": "numAddedFiles",
    "num_removed_files": "numRemovedFiles",
    "num_deleted_rows": "numDeletedRows",
    "num_copied_rows": "numCopiedRows",
    "num_deletion_vectors": "numDeletionVectorsAdded",
    "execution_time_ms": "executionTimeMs",
    "scan_time_ms": "scanTimeMs",
    "rewrite_time_ms": "rewriteTimeMs",
}


def optimize_metrics(result: ChangeResult) -> dict[str, Any]:
    """Of ``compact`` and ``z_order``, whose ``numFilesAlreadyClustered`` and ``zOrderBy`` are our own."""
    metrics = result.metrics
    z_order = {name: metrics[name] for name in ("numFilesAlreadyClustered", "zOrderBy") if name in metrics}
    return {
        **{name: metrics[spark_name] for name, spark_name in _OPTIMIZE.items()},
        "preserveInsertionOrder": False,
        **z_order,
        "version": result.version_after,
    }


def delete_metrics(result: ChangeResult) -> dict[str, Any]:
    """Of ``delete``; ``num_deletion_vectors`` is our own."""
    return {
        **{name: result.metrics[spark_name] for name, spark_name in _DELETE.items()},
        "version": result.version_after,
    }


def repair_metrics(result: RepairResult) -> dict[str, Any]:
    """Of ``repair``: ``dry_run`` and ``files_removed``, and the kinds of findings that are our own. ``version`` is that
    of the commit; None: there is none."""
    findings = {kind: getattr(result, kind) for kind in result.kinds()}
    return {"dry_run": result.dry_run, **findings, "version": result.version}
