"""The operator that changes columns, constraints, properties and features of a table."""

from __future__ import annotations

from typing import Any, ClassVar

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue import ALTER


class LakehouseAlterOperator(LakehouseTableOperator):
    """Changes columns, constraints, properties and features of a table, in the given order, each in its own commit.

    The default of ``retries`` is 0, and the DAG's default arguments do not change this default. A second try would make
    the first changes again.

    Args:
        changes: a list of changes, such as ``{"drop_columns": {"column_names": ["note"]}}`` (templated).
    """

    template_fields = (*LakehouseTableOperator.template_fields, "changes")
    template_fields_renderers: ClassVar = {"changes": "json"}

    def __init__(self, *, changes: list[dict[str, dict[str, Any]]], **kwargs: Any) -> None:
        kwargs.setdefault("retries", 0)
        super().__init__(**kwargs)
        self.changes = changes

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        result = ALTER.load()(hook.table(self.table).alter, self.changes)
        return {**result.to_dict(), "table": self.table}
