"""The operator that computes statistics that are missing in the log."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_lib.catalogue import COMPUTE_STATISTICS


class LakehouseComputeStatisticsOperator(LakehouseJobOperator):
    """Adds statistics that are missing in the log, from the footers of the data files. Changes no row."""

    job = COMPUTE_STATISTICS.name
    job_parameters = COMPUTE_STATISTICS.parameters

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {"table": hook.uri(self.table)}
