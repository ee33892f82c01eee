"""The tables of the registry as a fleet, with the options of their stores and the record of runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakehouse_airflow.hook import LakehouseHook

if TYPE_CHECKING:
    from lakehouse_lib.fleet.health.record import HealthRecord
    from lakehouse_lib.fleet.registry import Registry
    from lakehouse_lib.fleet.runs import RunRecord
    from lakehouse_lib.fleet.table_run import MaintainedTable


def fleet_of(registry: Registry, names: Iterable[str], hook: LakehouseHook) -> list[MaintainedTable]:
    """Tables of the registry by name, each with its policy and its storage options.

    Raises:
        RegistryError: a name is not in the registry.
    """
    from lakehouse_lib.fleet.table_run import MaintainedTable

    return [MaintainedTable.of(name, registry.table(name), hook.storage_options(name)) for name in names]


def record_of(registry: Registry, hook: LakehouseHook) -> RunRecord | None:
    """The record of runs; None: the registry has no ``records``."""
    from lakehouse_lib.fleet.runs import RunRecord

    if registry.records is None:
        return None
    return RunRecord(registry.records, hook.opener_of_records().storage_options(registry.records))


def health_record_of(registry: Registry, hook: LakehouseHook) -> HealthRecord | None:
    """The history of health; None: the registry has no ``records``."""
    from lakehouse_lib.fleet.health.record import HealthRecord

    if registry.records is None:
        return None
    return HealthRecord(registry.records, hook.opener_of_records().storage_options(registry.records))
