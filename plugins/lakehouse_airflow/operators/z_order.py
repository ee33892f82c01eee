"""Laying rows out so that queries skip files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.optimize import registered_file_size
from lakehouse_airflow.registry import load_registry

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakehouseZOrderOperator(LakehouseJobOperator):
    """Clusters a table by columns. Changes no row. Skips a table that is to be clustered by none.

    Args:
        columns: default the registry's ``cluster_by``.
        target_file_size: bytes; default the registry's, or the job's for a table that is not registered.
    """

    job = "z_order"

    def __init__(
        self, *, columns: Sequence[str] | None = None, target_file_size: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.columns = columns
        self.target_file_size = target_file_size

    def execute(self, context: Context) -> dict[str, Any]:
        if self.columns is None and "/" not in self.table and not load_registry().table(self.table).cluster_by:
            raise AirflowSkipException(f"the table {self.table!r} has no cluster_by in the registry")
        return super().execute(context)

    def arguments(self, hook: LakehouseHook, scratch: Path) -> list[str]:  # noqa: ARG002
        columns = self.columns if self.columns is not None else load_registry().table(self.table).cluster_by
        size = self.target_file_size or registered_file_size(self.table)
        return [
            *("--table", hook.uri(self.table)),
            *("--columns", ",".join(columns)),
            *(("--target-file-size", str(size)) if size else ()),
        ]
