"""The operator that Z-orders a table's rows, so that queries skip files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from lakehouse_airflow.errors import RegistryValueError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.optimize import file_size, where_file
from lakehouse_airflow.registry import registered_entry
from lakehouse_lib.catalogue import Z_ORDER
from lakehouse_lib.fleet.registry import Table


class LakehouseZOrderOperator(LakehouseJobOperator):
    """Z-orders the files of a table that are not Z-ordered yet. Changes no row.

    Without ``columns``, the task is skipped if the registry has no ``cluster_by`` for the table. All arguments are
    templated.

    Args:
        columns: default: the registry's ``cluster_by``; required for a table that is not registered.
        target_file_size: bytes; None: the registry's, else ``delta.targetFileSize`` of the table, else 100 MiB.
        full: also rewrite files that are Z-ordered already.
        where: SQL condition on partition columns that selects partitions; None: all partitions.
        min_commit_interval: seconds. Finished partitions are committed when this time has passed since the last commit,
            so that a killed job does not lose them; None: one commit at the end.
    """

    job = Z_ORDER.name
    job_parameters = Z_ORDER.parameters
    template_fields = (
        *LakehouseJobOperator.template_fields,
        "columns",
        "target_file_size",
        "full",
        "where",
        "min_commit_interval",
    )
    template_ext = (".sql",)

    def __init__(
        self,
        *,
        columns: Sequence[str] | None = None,
        target_file_size: int | None = None,
        full: bool = False,
        where: str | None = None,
        min_commit_interval: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.columns = columns
        self.target_file_size = target_file_size
        self.full = full
        self.where = where
        self.min_commit_interval = min_commit_interval

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return where_file(self.where)

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        entry = registered_entry(self.table)
        return {
            "table": hook.uri(self.table),
            "columns": self.columns if self.columns is not None else self._registered_columns(entry),
            "target_file_size": file_size(self.target_file_size, entry),
            "full": self.full,
            "min_commit_interval": self.min_commit_interval,
        }

    def _registered_columns(self, entry: Table | None) -> Sequence[str]:
        if entry is None:
            raise RegistryValueError(
                f"the table {self.table!r} is not in the registry, so columns has no default; give columns"
            )
        if not entry.cluster_by:
            raise AirflowSkipException(f"the table {self.table!r} has no cluster_by in the registry")
        return entry.cluster_by
