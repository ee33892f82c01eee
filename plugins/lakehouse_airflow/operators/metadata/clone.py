"""The operator that clones a table."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_lib.catalogue import CLONE


class LakehouseCloneOperator(LakehouseJobOperator):
    """Copies a version of a table into a new table. The link "Table version" leads to the new table.

    Args:
        target: the new table, in an empty folder: a name in the registry, or a location (templated).
        version: a version, or a time as ISO 8601 text (templated); None: the latest version.
        is_shallow: refer to the data files of the table instead of copying them (templated).
    """

    job = CLONE.name
    job_parameters = CLONE.parameters
    template_fields = (*LakehouseJobOperator.template_fields, "target", "version", "is_shallow")

    def __init__(
        self, *, target: str, version: int | str | None = None, is_shallow: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.version = version
        self.is_shallow = is_shallow

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {
            "table": hook.uri(self.table),
            "target": hook.uri(self.target),
            "version": self.version,
            "is_shallow": self.is_shallow,
        }

    def opened_tables(self) -> list[str]:
        return [*super().opened_tables(), self.target]

    @property
    def written_table(self) -> str:
        return self.target
