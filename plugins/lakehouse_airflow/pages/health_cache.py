"""A cache of the health of tables. To compute the health of a table with a million files takes seconds."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakehouse_lib.fleet.health.fleet_health import health_of

if TYPE_CHECKING:
    from lakehouse_lib.fleet.health import Health
    from lakehouse_lib.fleet.table_run import MaintainedTable

#: Seconds for which an entry is valid. Ages, and the files that a vacuum would delete, change without a new version.
VALID_SECONDS = 60.0
_MOST_TABLES = 64


class HealthCache:
    """The health of the versions that were computed last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[Any, tuple[float, Health]] = {}

    def health(self, table: MaintainedTable, table_id: str, version: int) -> Health:
        """The health of the table's latest version, by its policy.

        Args:
            table_id: the id in the table's metadata. It changes if the table is created again.
            version: the latest version.
        """
        key = (table.store.root, table_id, version, table.policy)
        with self._lock:
            moment, health = self._entries.get(key, (0.0, None))
        if health is not None and time.monotonic() - moment < VALID_SECONDS:
            return health
        health = health_of(table)
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = (time.monotonic(), health)
            for oldest in list(self._entries)[:-_MOST_TABLES]:
                del self._entries[oldest]
        return health
