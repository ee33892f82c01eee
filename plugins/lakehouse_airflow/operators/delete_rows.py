"""The operator that deletes rows."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_lib.catalogue import DELETE_ROWS


class LakehouseDeleteRowsOperator(LakehouseJobOperator):
    """Deletes the rows for which a SQL predicate is true; rows for which it is NULL stay.

    Args:
        predicate: SQL over the table's columns (templated).
    """

    job = DELETE_ROWS.name
    job_parameters = DELETE_ROWS.parameters
    template_fields = ("table", "predicate")

    def __init__(self, *, predicate: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.predicate = predicate

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {"table": hook.uri(self.table)}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return {"predicate_file": self.predicate}
