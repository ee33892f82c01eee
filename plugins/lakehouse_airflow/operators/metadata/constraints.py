"""The operator that adds CHECK constraints to a table."""

from __future__ import annotations

import json
from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_lib.catalogue import ADD_CONSTRAINT


class LakehouseAddConstraintOperator(LakehouseJobOperator):
    """Adds CHECK constraints in one commit, if every row of the table satisfies them.

    Args:
        constraints: name -> SQL condition over the table's columns (templated).
    """

    job = ADD_CONSTRAINT.name
    job_parameters = ADD_CONSTRAINT.parameters
    template_fields = (*LakehouseJobOperator.template_fields, "constraints")

    def __init__(self, *, constraints: dict[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.constraints = constraints

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {"table": hook.uri(self.table)}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return {"constraints_file": json.dumps(self.constraints)}
