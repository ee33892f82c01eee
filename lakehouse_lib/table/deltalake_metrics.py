"""Results of verbs as dictionaries with the keys of the ``deltalake`` package, and with the key ``version``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_lib.operations.results import ChangeResult, RepairResult, RestoreResult

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
_UPDATE = {
    "num_added_files": "numAddedFiles",
    "num_removed_files": "numRemovedFiles",
    "num_updated_rows": "numUpdatedRows",
    "num_copied_rows": "numCopiedRows",
    "num_deletion_vectors": "numDeletionVectorsAdded",
    "execution_time_ms": "executionTimeMs",
    "scan_time_ms": "scanTimeMs",
    "rewrite_time_ms": "rewriteTimeMs",
}
_MERGE = {
    "num_source_rows": "numSourceRows",
    "num_target_rows_inserted": "numTargetRowsInserted",
    "num_target_rows_updated": "numTargetRowsUpdated",
    "num_target_rows_deleted": "numTargetRowsDeleted",
    "num_target_rows_copied": "numTargetRowsCopied",
    "num_output_rows": "numOutputRows",
    "num_target_files_scanned": "numTargetFilesScanned",
    "num_target_files_skipped_during_scan": "numTargetFilesSkipped",
    "num_target_files_added": "numTargetFilesAdded",
    "num_target_files_removed": "numTargetFilesRemoved",
    "num_deletion_vectors": "numTargetDeletionVectorsAdded",
    "execution_time_ms": "executionTimeMs",
    "scan_time_ms": "scanTimeMs",
    "rewrite_time_ms": "rewriteTimeMs",
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
    """The metrics of ``compact``, ``purge`` and ``z_order``.

    ``deltalake`` does not have ``numFilesAlreadyClustered`` and ``zOrderBy``, which only ``z_order`` returns.
    """
    metrics = result.metrics
    z_order = {name: metrics[name] for name in ("numFilesAlreadyClustered", "zOrderBy") if name in metrics}
    return {
        **{name: metrics[spark_name] for name, spark_name in _OPTIMIZE.items()},
        "preserveInsertionOrder": False,
        **z_order,
        "version": result.version_after,
    }


def delete_metrics(result: ChangeResult) -> dict[str, Any]:
    """The metrics of ``delete``; ``deltalake`` does not have ``num_deletion_vectors``."""
    return {
        **{name: result.metrics[spark_name] for name, spark_name in _DELETE.items()},
        "version": result.version_after,
    }


def update_metrics(result: ChangeResult) -> dict[str, Any]:
    """The metrics of ``update``; ``deltalake`` does not have ``num_deletion_vectors``."""
    return {
        **{name: result.metrics[spark_name] for name, spark_name in _UPDATE.items()},
        "version": result.version_after,
    }


def merge_metrics(result: ChangeResult) -> dict[str, Any]:
    """The metrics of ``merge``; ``deltalake`` does not have ``num_deletion_vectors``."""
    return {
        **{name: result.metrics.get(spark_name, 0) for name, spark_name in _MERGE.items()},
        "version": result.version_after,
    }


def restore_metrics(result: RestoreResult) -> dict[str, Any]:
    """The metrics of ``restore``; ``deltalake`` has only the first two."""
    return {
        "numRemovedFile": result.metrics["numRemovedFiles"],
        "numRestoredFile": result.metrics["numRestoredFiles"],
        "missing_files": list(result.missing_files),
        "dry_run": result.dry_run,
        "version": result.version_after,
    }


def repair_metrics(result: RepairResult) -> dict[str, Any]:
    """The report of ``repair``: ``dry_run`` and ``files_removed`` as in ``deltalake``, and the other kinds of findings.

    ``version`` is the version that the repair committed; None: the repair committed nothing.
    """
    findings = {kind: getattr(result, kind) for kind in result.kinds()}
    return {"dry_run": result.dry_run, **findings, "version": result.version}
