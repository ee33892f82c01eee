"""The sensor that waits for a load that has passed the quality checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.errors import InvalidParameterError, RegistryValueError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.registry import load_registry
from lakehouse_airflow.sensors.base import LakehouseTableSensor

if TYPE_CHECKING:
    from lakehouse_lib.fleet.conditions import QualityPassed


class LakehouseQualitySensor(LakehouseTableSensor):
    """Waits until the last batch of a registered table has passed the checks: no file was refused, and no row rejected.

    A batch that is still being loaded has not passed yet.

    Returns ``{"table", "version", "batch", "has_rejected_rows"}``.

    Args:
        table: a name in the registry; the table needs a source (templated).
        allow_rejected_rows: also accept a batch with rejected rows, which are in the quarantine (templated).

    Raises:
        AirflowFailException: the table is not in the registry, has no source, or has its quarantine in another kind of
            store.
    """

    template_fields: Sequence[str] = (*LakehouseTableSensor.template_fields, "allow_rejected_rows")

    def __init__(self, *, allow_rejected_rows: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.allow_rejected_rows = allow_rejected_rows

    def condition(self) -> QualityPassed:
        from lakehouse_lib.fleet.conditions import QualityPassed

        entry = load_registry().table(self.table)
        if entry.source is None or entry.quarantine is None:
            raise RegistryValueError(f"the table {self.table!r} has no source in the registry; add a source")
        allowed = str(self.allow_rejected_rows).lower()
        if allowed not in ("true", "false"):
            raise InvalidParameterError(f"allow_rejected_rows is {self.allow_rejected_rows!r}; expected True or False")
        # Opened as the load opens it, because the registry may spell a location in several ways.
        quarantine = LakehouseHook(self.lakehouse_conn_id).opener(self.table).store(entry.quarantine).root
        return QualityPassed(entry.source.name, quarantine, allowed == "true")
