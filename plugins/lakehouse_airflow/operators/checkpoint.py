"""The operator that writes a checkpoint."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue import CHECKPOINT


class LakehouseCheckpointOperator(LakehouseTableOperator):
    """Writes a checkpoint of the latest version, so that readers do not replay the commits before it."""

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        return {**CHECKPOINT.run(hook.table(self.table).snapshot).to_dict(), "table": self.table}
