"""The sensor that waits for a partition of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.errors import InvalidParameterError
from lakehouse_airflow.sensors.base import LakehouseTableSensor

if TYPE_CHECKING:
    from lakehouse_lib.fleet.conditions import PartitionPresent


class LakehousePartitionSensor(LakehouseTableSensor):
    """Waits until a table has a data file in a partition.

    Returns ``{"table", "version", "files"}`` with the number of files in the partition.

    Args:
        partition: partition column -> value, such as ``{"day": "{{ ds }}"}`` (templated). The value None is NULL.
            Partition columns that are left out may have any value.

    Raises:
        AirflowFailException: a column is not a partition column, or a value is bytes or is not of its type.
    """

    template_fields: Sequence[str] = (*LakehouseTableSensor.template_fields, "partition")

    def __init__(self, *, partition: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.partition = partition

    def condition(self) -> PartitionPresent:
        from lakehouse_lib.fleet.conditions import PartitionPresent

        if not isinstance(self.partition, Mapping) or not self.partition:
            raise InvalidParameterError(f'partition is {self.partition!r}; expected {{"column": "value"}}')
        return PartitionPresent(self.partition)
