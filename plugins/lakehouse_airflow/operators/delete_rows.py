"""Deleting rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.job_operator import LakehouseJobOperator


class LakehouseDeleteRowsOperator(LakehouseJobOperator):
    """Deletes the rows for which a SQL predicate is true; rows for which it is NULL stay.

    Args:
        predicate: SQL over the table's columns (templated).
    """

    job = "delete_rows"
    template_fields = ("table", "predicate")

    def __init__(self, *, predicate: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.predicate = predicate

    def arguments(self, hook: LakehouseHook, scratch: Path) -> list[str]:
        # Through a file: thousands of keys do not fit a command line, and command lines are logged.
        file = scratch / "predicate.sql"
        file.write_text(self.predicate, encoding="utf-8")
        return ["--table", hook.uri(self.table), "--predicate-file", str(file)]
