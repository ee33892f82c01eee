"""The health of the tables of a fleet, and its history."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lakehouse_lib.errors import DeltaError, TableNotFoundError
from lakehouse_lib.fleet.health.metrics import Health, health
from lakehouse_lib.fleet.health.record import HealthRecord
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.threads import map_in_threads

logger = logging.getLogger(__name__)

_TABLES_AT_ONCE = 8


def health_of(snapshot: Snapshot, policy: Policy) -> Health:
    """The health of a version, with the target size, the Z-order columns and the retention of the policy."""
    return health(
        snapshot,
        target_file_size=policy.target_file_size,
        clustered_by=policy.cluster_by,
        retention_hours=policy.retention_hours,
    )


def record_health(tables: Iterable[MaintainedTable], record: HealthRecord) -> None:
    """Append the health of each table to the history, in one commit.

    A table that does not exist is left out. If a table cannot be read, or the history cannot be written, a warning is
    logged.
    """

    def measure(table: MaintainedTable) -> tuple[str, Health] | None:
        try:
            return table.name, health_of(load_snapshot(table.store), table.policy)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            logger.warning("the health of %s cannot be computed: %s", table.name, error)
            return None

    results = map_in_threads(measure, tables, _TABLES_AT_ONCE, ahead=2 * _TABLES_AT_ONCE)
    measurements = [result for result in results if result is not None]
    try:
        if measurements:
            record.append(measurements)
    except DeltaError as error:
        logger.warning("the health of %d tables is not recorded: %s", len(measurements), error)
