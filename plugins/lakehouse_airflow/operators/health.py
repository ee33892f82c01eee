"""The operator that reports a table's health."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator


class LakehouseHealthOperator(LakehouseTableOperator):
    """Returns the table's health, judged from its log alone."""

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        return hook.health(self.table)
