"""The sensor that waits until a table has few small files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.errors import InvalidParameterError
from lakehouse_airflow.registry import registered_entry
from lakehouse_airflow.sensors.base import LakehouseTableSensor
from lakehouse_airflow.sensors.values import whole_number

if TYPE_CHECKING:
    from lakehouse_lib.fleet.conditions import SmallFilesBelow


class LakehouseSmallFilesSensor(LakehouseTableSensor):
    """Waits until a table has fewer than ``below`` small files. A file is small below half of the target size.

    Returns ``{"table", "version", "small_files"}``.

    Args:
        below: a number of files (templated).
        target_file_size: bytes (templated); default: the value in the registry, else the target size of the table.
    """

    template_fields: Sequence[str] = (*LakehouseTableSensor.template_fields, "below", "target_file_size")

    def __init__(self, *, below: int | str, target_file_size: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.below = below
        self.target_file_size = target_file_size

    def condition(self) -> SmallFilesBelow:
        from lakehouse_lib.fleet.conditions import SmallFilesBelow

        below = whole_number("below", self.below, 1, "a number of files")
        size = whole_number("target_file_size", self.target_file_size, 1, "a number of bytes")
        if below is None:
            raise InvalidParameterError("below has no value; expected a number of files from 1")
        entry = registered_entry(self.table)
        return SmallFilesBelow(below, size or (None if entry is None else entry.target_file_size))
