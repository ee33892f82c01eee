"""The operators that compact small files, and that rewrite files without deleted rows and dropped columns."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_airflow.registry import registered_entry
from lakehouse_lib.catalogue import COMPACT, REORG
from lakehouse_lib.fleet.registry import Table


class LakehouseOptimizeOperator(LakehouseJobOperator):
    """Merges data files that are smaller than half of the target size. Changes no row.

    Args:
        target_file_size: bytes (templated); None: the registry's, else ``delta.targetFileSize`` of the table, else
            100 MiB.
        where: SQL condition on partition columns that selects partitions (templated); None: all partitions.
        min_commit_interval: seconds (templated). Finished files are committed when this time has passed since the last
            commit, so that a killed job does not lose them; None: one commit at the end.
    """

    job = COMPACT.name
    job_parameters = COMPACT.parameters
    template_fields = (*LakehouseJobOperator.template_fields, "target_file_size", "where", "min_commit_interval")
    template_ext = (".sql",)

    def __init__(
        self,
        *,
        target_file_size: int | None = None,
        where: str | None = None,
        min_commit_interval: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target_file_size = target_file_size
        self.where = where
        self.min_commit_interval = min_commit_interval

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        entry = registered_entry(self.table)
        return {
            "table": hook.uri(self.table),
            "target_file_size": file_size(self.target_file_size, entry),
            "min_commit_interval": self.min_commit_interval,
        }

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return where_file(self.where)


class LakehouseReorgOperator(LakehouseJobOperator):
    """Rewrites every file with a deletion vector or a dropped column (REORG in the log). Changes no row.

    Args:
        where: SQL condition on partition columns that selects partitions (templated); None: all partitions.
    """

    job = REORG.name
    job_parameters = REORG.parameters
    template_fields = (*LakehouseJobOperator.template_fields, "where")
    template_ext = (".sql",)

    def __init__(self, *, where: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {"table": hook.uri(self.table)}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return where_file(self.where)


def where_file(where: str | None) -> dict[str, str]:
    """The private file of a condition on partitions, because partition values may be personal; empty for None."""
    return {} if where is None else {"where_file": where}


def file_size(target_file_size: int | None, entry: Table | None) -> int | None:
    """The target file size in bytes: the operator's, else the registry's; None: the table's own.

    Args:
        entry: the table's entry in the registry; None: the table is not registered.
    """
    return target_file_size or (entry.target_file_size if entry is not None else None)
