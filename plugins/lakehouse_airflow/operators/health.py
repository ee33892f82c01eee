"""The operator that reports a table's health metrics."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator


class LakehouseHealthOperator(LakehouseTableOperator):
    """Returns the table's health metrics and their score with reasons, computed from its log only."""

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        return hook.health(self.table)
