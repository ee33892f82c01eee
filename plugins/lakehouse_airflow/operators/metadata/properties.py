"""The operator that sets table properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue import SET_PROPERTIES


class LakehouseSetPropertiesOperator(LakehouseTableOperator):
    """Sets table properties, and adds the features that they enable.

    Args:
        properties: name -> value, as texts (templated).
        raise_if_not_exists: refuse names that do not begin with ``delta.``.
    """

    template_fields: Sequence[str] = ("table", "properties")

    def __init__(self, *, properties: dict[str, str], raise_if_not_exists: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.properties = properties
        self.raise_if_not_exists = raise_if_not_exists

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        result = SET_PROPERTIES.run(
            hook.table(self.table).snapshot, properties=self.properties, raise_if_not_exists=self.raise_if_not_exists
        )
        return {**result.to_dict(), "table": self.table}
