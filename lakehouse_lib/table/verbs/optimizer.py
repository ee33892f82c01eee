"""``table.optimize``: the verbs that rewrite the files or the statistics of a table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse_lib.engine.writer_properties import check_writer_properties
from lakehouse_lib.table.arguments.positional import also_by_position
from lakehouse_lib.table.deltalake_metrics import optimize_metrics
from lakehouse_lib.transaction.commit_properties import (
    CommitProperties,
    check_commit_properties,
    commit_properties_of,
)

if TYPE_CHECKING:
    from lakehouse_lib.engine.writer_properties import WriterProperties
    from lakehouse_lib.table.delta_table import DeltaTable
    from lakehouse_lib.table.description import Filters
    from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties


class TableOptimizer:
    """The verbs of ``table.optimize``. They rewrite the files or the statistics of a table, and change no row."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    @also_by_position("post_commithook_properties", "commit_properties")
    def compact(
        self,
        partition_filters: Filters | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,  # noqa: ARG002
        max_spill_size: int | None = None,  # noqa: ARG002
        max_temp_directory_size: int | None = None,  # noqa: ARG002
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Merge small files; see ``operations.optimize.compact``.

        Args:
            partition_filters: filters or SQL on partition columns; only files of these partitions are merged. None:
                all.
            target_size: bytes; default ``delta.targetFileSize``, else 100 MiB.
            max_concurrent_tasks, max_spill_size, max_temp_directory_size: ignored, because they tune how ``deltalake``
                executes. ``ArrowEngine(parallelism=...)`` limits the threads.
            min_commit_interval: seconds. Finished files are committed when this time has passed since the last commit,
                and at the end, so that a killed run does not lose them. None: one commit at the end.
            writer_properties: how the Parquet files are written.

        Returns:
            ``deltalake``'s metrics and ``version``, the table's version after the compaction.
        """
        from lakehouse_lib.operations.optimize.compact import compact

        table = self.table
        check_writer_properties(writer_properties, table=table.table_uri)
        properties = commit_properties_of(commit_properties, post_commithook_properties, table=table.table_uri)
        result = compact(
            table._latest(),
            table.engine,
            target_size=target_size,
            predicate=table._predicate(partition_filters),
            min_commit_interval=_seconds(min_commit_interval),
            writer_properties=writer_properties,
            commit_properties=properties,
        )
        table._move_on(result.version)
        return optimize_metrics(result)

    def purge(
        self, partition_filters: Filters | None = None, *, commit_properties: CommitProperties | None = None
    ) -> dict[str, Any]:
        """Rewrite files without deleted rows and dropped columns; see ``operations.optimize.purge``.

        Args:
            partition_filters: filters or SQL on partition columns; only files of these partitions are rewritten. None:
                all.

        Returns:
            The metrics of ``compact``.
        """
        from lakehouse_lib.operations.optimize.purge import purge

        table = self.table
        check_commit_properties(commit_properties, table=table.table_uri)
        result = purge(
            table._latest(),
            table.engine,
            predicate=table._predicate(partition_filters),
            commit_properties=commit_properties,
        )
        table._move_on(result.version)
        return optimize_metrics(result)

    def statistics(
        self, partition_filters: Filters | None = None, *, commit_properties: CommitProperties | None = None
    ) -> dict[str, Any]:
        """Add statistics that are missing in the log; see ``operations.optimize.statistics``.

        Args:
            partition_filters: filters or SQL on partition columns; only files of these partitions are read. None: all.

        Returns:
            ``numUpdatedFiles``, ``numFootersRead``, ``numDataFilesRead``, ``totalConsideredFiles``,
            ``executionTimeMs`` and ``version``, the table's version after the call.
        """
        from lakehouse_lib.operations.optimize.statistics import compute_statistics

        table = self.table
        check_commit_properties(commit_properties, table=table.table_uri)
        result = compute_statistics(
            table._latest(),
            table.engine,
            predicate=table._predicate(partition_filters),
            commit_properties=commit_properties,
        )
        table._move_on(result.version)
        return {**result.metrics, "version": result.version_after}

    @also_by_position("post_commithook_properties", "commit_properties")
    def z_order(
        self,
        columns: Iterable[str] | None = None,
        partition_filters: Filters | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,  # noqa: ARG002
        max_spill_size: int | None = None,  # noqa: ARG002
        max_temp_directory_size: int | None = None,  # noqa: ARG002
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        layout: str | None = None,
        full: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Rewrite files so that queries on any of ``columns`` skip most files; see ``operations.optimize.z_order``.

        New files become a new run of Z-ordered files. If a partition would have four runs, their rows join the files of
        the largest run that have the same key ranges. Arguments that are not listed here are as in ``compact``.

        Args:
            columns: the columns that queries filter by; None: the clustering columns of the table
                (``alter.cluster_by``).
            partition_filters: filters or SQL on partition columns; only these partitions are Z-ordered. None: all.
            layout: "kd", "zorder" or "hilbert"; None: the layout of the Z-ordered files, else "kd".
            full: rewrite all files. Use this if the distribution of the data has changed.

        Returns:
            The metrics of ``compact``, ``numFilesAlreadyClustered`` and ``zOrderBy``.
        """
        from lakehouse_lib.operations.optimize.z_order.z_order import z_order

        table = self.table
        check_writer_properties(writer_properties, table=table.table_uri)
        properties = commit_properties_of(commit_properties, post_commithook_properties, table=table.table_uri)
        result = z_order(
            table._latest(),
            table.engine,
            columns,
            target_size=target_size,
            predicate=table._predicate(partition_filters),
            layout=layout,
            full=full,
            min_commit_interval=_seconds(min_commit_interval),
            writer_properties=writer_properties,
            commit_properties=properties,
        )
        table._move_on(result.version)
        return optimize_metrics(result)


def _seconds(interval: int | timedelta | None) -> float | None:
    return interval.total_seconds() if isinstance(interval, timedelta) else interval
