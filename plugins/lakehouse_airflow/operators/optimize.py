"""Making small files large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.job_operator import LakehouseJobOperator
from lakehouse_airflow.registry import registered


class LakehouseOptimizeOperator(LakehouseJobOperator):
    """Compacts files smaller than the target size. Changes no row.

    Args:
        target_file_size: bytes; default the registry's, or the job's for a table that is not registered.
    """

    job = "compact"

    def __init__(self, *, target_file_size: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_file_size = target_file_size

    def arguments(self, hook: LakehouseHook, scratch: Path) -> list[str]:  # noqa: ARG002
        size = self.target_file_size or registered_file_size(self.table)
        return ["--table", hook.uri(self.table), *(["--target-file-size", str(size)] if size else [])]


def registered_file_size(table: str) -> int | None:
    """The registry's target file size in bytes; None for a table that is not in it."""
    entry = registered(table)
    return None if entry is None else entry.target_file_size
