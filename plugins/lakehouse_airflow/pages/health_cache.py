"""A cache of measurements. Measuring a table with a million files takes seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakehouse_lib.fleet.health.fleet_health import health_of
from lakehouse_lib.fleet.health.partitions import heavy_partitions

if TYPE_CHECKING:
    from lakehouse_airflow.pages.views.quality import Quality
    from lakehouse_lib import DeltaTable
    from lakehouse_lib.fleet.health import Health
    from lakehouse_lib.fleet.health.partitions import HeavyPartitions
    from lakehouse_lib.fleet.table_run import MaintainedTable

#: Seconds for which an entry is valid. Ages, and the number of files that a vacuum would delete, change over time.
VALID_SECONDS = 60.0
#: A table with more files is measured only by a caller that waits.
MOST_FILES = 20_000
_MOST_TABLES = 64
_MOST_PARTITIONS = 10


@dataclass(frozen=True)
class Measurement:
    """The measurement of a version of a table, from its log.

    Attributes:
        partitions: None: the table has no partitions.
        quality: None: the table has no source.
    """

    health: Health
    partitions: HeavyPartitions | None
    quality: Quality | None


class HealthCache:
    """The newest measurements, of at most 64 versions."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[Any, tuple[float, Measurement]] = {}

    def measurement(
        self, maintained: MaintainedTable, table: DeltaTable, quality: Callable[[], Quality | None], *, waits: bool
    ) -> Measurement | None:
        """The measurement of the latest version of a table.

        Args:
            maintained: the table with its policy, such as the target file size.
            table: the same table, opened at its latest version.
            quality: reads the quality of the table's loads.
            waits: whether a table with more than ``MOST_FILES`` files is measured, too.

        Returns:
            None if the table is large and has no entry, and the caller does not wait.
        """
        key = (maintained.store.root, table.metadata().id, table.version(), maintained.policy)
        with self._lock:
            moment, measurement = self._entries.get(key, (0.0, None))
        if measurement is not None and time.monotonic() - moment < VALID_SECONDS:
            return measurement
        if not waits and table.snapshot.max_file_count > MOST_FILES:
            return None
        health = health_of(table.snapshot, maintained.policy)
        partitions = heavy_partitions(table.snapshot, health.target_file_size, _MOST_PARTITIONS)
        measurement = Measurement(health, partitions, quality())
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = (time.monotonic(), measurement)
            for oldest in list(self._entries)[:-_MOST_TABLES]:
                del self._entries[oldest]
        return measurement
