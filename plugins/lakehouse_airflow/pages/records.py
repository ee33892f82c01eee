"""Read the records of health and of maintenance runs for the pages, without opening the recorded tables."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from airflow.providers.common.compat.sdk import AirflowException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.maintenance.fleet import health_record_of, record_of
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.fleet.health.record import SCHEMA as HEALTH_SCHEMA
from lakehouse_lib.fleet.runs import SCHEMA as RUN_SCHEMA

if TYPE_CHECKING:
    from lakehouse_lib.fleet.health.record import HealthRecord
    from lakehouse_lib.fleet.registry import Registry
    from lakehouse_lib.fleet.runs import RunRecord

logger = logging.getLogger(__name__)

#: The numbers of past days that the page of all tables and the page of a table show.
DAYS, DAYS_OF_A_TABLE = 30, 90


@dataclass(frozen=True)
class Records:
    """Rows of the records.

    Attributes:
        looks: rows of the record of health. A row, a *look*, is the recorded health of a table at one time.
        steps: rows of the record of runs. A row is a step of a maintenance run.
        problem: the reason why the records could not be read; None: they were read.
    """

    looks: pa.Table
    steps: pa.Table
    problem: str | None = None


def newest_records(registry: Registry) -> Records:
    """The newest health of each table, and the newest step of each table and verb, in the last ``DAYS`` days."""
    return _read(registry, lambda health, runs: Records(health.latest(DAYS), runs.latest(DAYS)))


def records_of(registry: Registry, table: str) -> Records:
    """The recorded health and the maintenance steps of a table in the last ``DAYS_OF_A_TABLE`` days, oldest first."""
    return _read(
        registry,
        lambda health, runs: Records(health.series(table, DAYS_OF_A_TABLE), runs.series(table, DAYS_OF_A_TABLE)),
    )


def _read(registry: Registry, read: Callable[[HealthRecord, RunRecord], Records]) -> Records:
    """Read records. If they cannot be read, a page shows the reason and does not fail."""
    hook = LakehouseHook()
    try:
        health, runs = health_record_of(registry, hook), record_of(registry, hook)
        if health is None or runs is None:
            return _no_records(
                "The key records is missing in the registry, so no health and no maintenance runs are recorded."
            )
        return read(health, runs)
    except (AirflowException, DeltaError) as error:
        logger.warning("the records in %s cannot be read: %s", registry.records, error)
        return _no_records(f"The records cannot be read: {error}")


def _no_records(problem: str) -> Records:
    return Records(HEALTH_SCHEMA.empty_table(), RUN_SCHEMA.empty_table(), problem)
