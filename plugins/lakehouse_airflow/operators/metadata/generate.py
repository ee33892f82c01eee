"""The operator that writes the manifests of a table."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue import GENERATE


class LakehouseGenerateOperator(LakehouseTableOperator):
    """Writes manifests of the latest version, for programs that read Parquet files but no Delta log."""

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        return {**GENERATE.run(hook.table(self.table).snapshot).to_dict(), "table": self.table}
