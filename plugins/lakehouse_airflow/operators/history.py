"""What happened to a table."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.commit_info import shown_info
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator


class LakehouseHistoryOperator(LakehouseTableOperator):
    """Returns the table's commits, newest first, as commitInfo; conditions are withheld where a subject has rows.

    Args:
        limit: at most so many; None for all.
    """

    def __init__(self, *, limit: int | None = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.limit = limit

    def run(self, hook: LakehouseHook) -> list[dict[str, Any]]:
        uri = hook.uri(self.table)
        return [shown_info(commit, uri) for commit in hook.history(self.table, self.limit)]
