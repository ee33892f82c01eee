"""Laying rows out so that queries skip files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.optimize import registered_file_size
from lakehouse_airflow.registry import registered


class LakehouseZOrderOperator(LakehouseJobOperator):
    """Clusters a table by columns. Changes no row. Skips a table that is to be clustered by none.

    Args:
        columns: default the registry's ``cluster_by``; needed for a table that is not registered.
        target_file_size: bytes; default the registry's, or the job's for a table that is not registered.
    """

    job = "z_order"

    def __init__(
        self, *, columns: Sequence[str] | None = None, target_file_size: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.columns = columns
        self.target_file_size = target_file_size

    def arguments(self, hook: LakehouseHook, scratch: Path) -> list[str]:  # noqa: ARG002
        uri = hook.uri(self.table)
        size = self.target_file_size or registered_file_size(self.table)
        return [
            *("--table", uri),
            *("--columns", ",".join(self.columns if self.columns is not None else self._registered_columns())),
            *(("--target-file-size", str(size)) if size else ()),
        ]

    def _registered_columns(self) -> Sequence[str]:
        entry = registered(self.table)
        if entry is None:
            raise AirflowFailException(
                f"the table {self.table!r} is not in the registry, whose cluster_by is the default: give columns"
            )
        if not entry.cluster_by:
            raise AirflowSkipException(f"the table {self.table!r} has no cluster_by in the registry")
        return entry.cluster_by
