"""Operators that pin a version of a table by name, and delete the pin."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue import PIN_VERSION, RELEASE_VERSION


class LakehousePinVersionOperator(LakehouseTableOperator):
    """Pins a version of a table by name, so that vacuum and log cleanup do not delete its files.

    Args:
        name: the name of the pin (templated).
        version: a version, or a time as ISO 8601 text (templated). Text of digits is a version. None: the latest.
    """

    template_fields = (*LakehouseTableOperator.template_fields, "name", "version")

    def __init__(self, *, name: str, version: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.version = version

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        result = PIN_VERSION.run(hook.table(self.table).snapshot, name=self.name, version=self.version)
        return {**result.to_dict(), "table": self.table}


class LakehouseReleaseVersionOperator(LakehouseTableOperator):
    """Deletes the pin of a version, so that vacuum and log cleanup may delete its files.

    Args:
        name: the name of the pin (templated).
    """

    template_fields = (*LakehouseTableOperator.template_fields, "name")

    def __init__(self, *, name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        result = RELEASE_VERSION.run(hook.table(self.table).snapshot, name=self.name)
        return {**result.to_dict(), "table": self.table}
