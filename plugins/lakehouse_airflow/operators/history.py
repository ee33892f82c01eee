"""The operator that returns a table's history."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.commit_info import shown_infos
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue.operation import Parameter


class LakehouseHistoryOperator(LakehouseTableOperator):
    """Returns the commitInfo of the table's commits, newest first.

    If a subject of the registry has rows in the table, the conditions in the commitInfo are left out.

    Args:
        limit: the largest number of commits (templated); None: all. Default: 20.
    """

    parameters = (Parameter("limit", "count", "the largest number of commits", default=20),)
    template_fields = (*LakehouseTableOperator.template_fields, "limit")

    def __init__(self, *, limit: int | None = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.limit = limit

    def run(self, hook: LakehouseHook) -> list[dict[str, Any]]:
        return shown_infos(hook.history(self.table, self.limit), hook.uri(self.table))
