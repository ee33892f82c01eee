"""The sensor that waits for new rows in a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.sensors.base import LakehouseTableSensor
from lakehouse_airflow.sensors.values import seconds

if TYPE_CHECKING:
    from lakehouse_lib.fleet.conditions import Fresh


class LakehouseFreshnessSensor(LakehouseTableSensor):
    """Waits until the newest rows of a table are at most ``max_age`` old.

    Without ``column``, the age is that of the newest commit that has changed rows. Compaction and Z-order change no
    rows. With ``column``, the age is that of the largest value of the column, by the statistics in the log. A date
    counts as its midnight, and times without a zone are in UTC.

    Returns ``{"table", "version", "newest", "age_seconds"}``; ``newest`` is a time in UTC.

    Args:
        max_age: a timedelta, or a number of seconds (templated).
        column: a column of type date, timestamp or timestamp_ntz (templated); None: the age of the newest commit.
    """

    template_fields: Sequence[str] = (*LakehouseTableSensor.template_fields, "max_age", "column")

    def __init__(self, *, max_age: timedelta | float | str, column: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_age = max_age
        self.column = column

    def condition(self) -> Fresh:
        from lakehouse_lib.fleet.conditions import Fresh

        return Fresh(seconds("max_age", self.max_age), self.column)
