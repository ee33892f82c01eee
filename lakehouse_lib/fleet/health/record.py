"""The history of health: a Delta table with a row for each time that a table's health was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lakehouse_lib.fleet.health.metrics import Health
from lakehouse_lib.fleet.health.score import score
from lakehouse_lib.fleet.record_table import append_rows, newest_rows, rows_since
from lakehouse_lib.log import clock
from lakehouse_lib.store import open_store

_TIME = pa.timestamp("us", "UTC")
_COUNTS = (
    "version",
    "timestamp",
    "files",
    "bytes",
    "rows",
    "target_file_size",
    "median_file_size",
    "small_files",
    "compactable_files",
    "unclustered_files",
    "unmerged_runs",
    "uncounted_files",
    "partitions",
    "largest_partition_bytes",
    "median_partition_bytes",
    "deleted_rows",
    "files_with_many_deleted_rows",
    "tombstones",
    "tombstone_bytes",
    "reclaimable_files",
    "reclaimable_bytes",
    "commits_since_checkpoint",
    "replayed_bytes",
    "versions",
    "log_bytes",
)
_SHARES = ("small_file_share", "largest_partition_share", "deleted_row_share", "checkpoint_lag")

#: The columns of the record. ``table`` is the name under which the health was recorded, ``looked_at`` the time.
#: ``reasons`` and ``skipping`` are JSON. The other columns are as in ``Health``.
SCHEMA = pa.schema(
    [
        pa.field("looked_at", _TIME),
        pa.field("table", pa.string()),
        pa.field("score", pa.int64()),
        pa.field("reasons", pa.string()),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
        *(pa.field(name, pa.float64()) for name in _SHARES),
        pa.field("commits_per_day", pa.float64()),
        pa.field("skipping", pa.string()),
    ]
)


class HealthRecord:
    """The record of health in ``RECORDS/health``. The table is created by the first write.

    Args:
        records: the location of the platform's own tables.
    """

    def __init__(self, records: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.store = open_store(f"{records.rstrip('/')}/health", dict(storage_options or {}))

    def append(self, looks: Iterable[tuple[str, Health]], now: int | None = None) -> None:
        """Write a row with the metrics and the score of each table, in one commit.

        Args:
            looks: the name and the metrics of each table.
            now: ms since the epoch; None: this machine's clock.
        """
        moment = (clock.now() if now is None else now) * 1000
        rows = [{"looked_at": moment, "table": table, **_row(metrics)} for table, metrics in looks]
        if rows:
            append_rows(self.store, pa.Table.from_pylist(rows, SCHEMA))

    def series(self, table: str, days: float, now: int | None = None) -> pa.Table:
        """The rows (``SCHEMA``) of a table in the last ``days``, oldest first. Files with only older rows are not read.

        Args:
            table: the name under which the health was recorded.
            now: ms since the epoch; None: this machine's clock.
        """
        moment = (clock.now() if now is None else now) - int(days * 86_400_000)
        rows = rows_since(self.store, SCHEMA, "looked_at", moment, [("table", "=", table)])
        return rows.sort_by("looked_at")

    def latest(self, days: float, now: int | None = None) -> pa.Table:
        """The newest row (``SCHEMA``) of each table in the last ``days``.

        Args:
            now: ms since the epoch; None: this machine's clock.
        """
        moment = (clock.now() if now is None else now) - int(days * 86_400_000)
        rows = rows_since(self.store, SCHEMA, "looked_at", moment)
        return newest_rows(rows.sort_by("looked_at"), ["table"])


def _row(metrics: Health) -> dict[str, Any]:
    rating = score(metrics).to_dict()
    return {
        "score": rating["points"],
        "reasons": json.dumps(rating["reasons"]),
        **{name: getattr(metrics, name) for name in (*_COUNTS, *_SHARES)},
        "commits_per_day": metrics.writes.per_day,
        "skipping": json.dumps(dict(metrics.skipping)),
    }
