"""The condition of a table, as it is measured now or as the newest record of its health describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse_airflow.pages.views.fleet import milliseconds
from lakehouse_lib.fleet.health import score

if TYPE_CHECKING:
    from lakehouse_lib.fleet.health import Health
    from lakehouse_lib.fleet.health.sizes import SizeBucket

#: The numbers that the page shows. Each is an attribute of ``Health``. The record does not have all of them.
NUMBERS = (
    "files",
    "bytes",
    "rows",
    "target_file_size",
    "median_file_size",
    "p05_file_size",
    "p95_file_size",
    "small_files",
    "compactable_files",
    "deleted_rows",
    "tombstones",
    "tombstone_bytes",
    "reclaimable_files",
    "reclaimable_bytes",
    "versions",
    "log_bytes",
    "commits_since_checkpoint",
    "replayed_bytes",
    "checkpoint_lag",
    "partitions",
    "largest_partition_bytes",
    "largest_partition_share",
    "median_partition_bytes",
    "unclustered_files",
    "unmerged_runs",
)


@dataclass(frozen=True)
class Condition:
    """The condition of a table. Times are ms since the epoch; None: not known.

    Attributes:
        timestamp: the time of the version.
        looked_at: the time of the record; None: the condition was measured for this page.
        points, reasons: the score and its reasons.
        numbers: the values of ``NUMBERS``; None: the record does not have the number.
        clustered_by: the clustering columns; empty if the condition is from the record.
        clustering, skipping: by column, as in ``Health``. ``clustering`` is empty if the condition is from the record.
        histogram: the numbers of files by size; empty if the condition is from the record.
    """

    version: int
    timestamp: int | None
    looked_at: int | None
    points: int
    reasons: Sequence[Mapping[str, Any]]
    numbers: Mapping[str, Any]
    commits_per_day: float
    clustered_by: tuple[str, ...] = ()
    clustering: Mapping[str, float] = field(default_factory=dict)
    skipping: Mapping[str, float] = field(default_factory=dict)
    histogram: Sequence[SizeBucket] = ()


def measured_condition(health: Health) -> Condition:
    """The condition as it was measured now."""
    rating = score(health).to_dict()
    return Condition(
        health.version,
        health.timestamp,
        None,
        rating["points"],
        rating["reasons"],
        {name: getattr(health, name) for name in NUMBERS},
        health.writes.per_day,
        health.clustered_by,
        health.clustering,
        health.skipping,
        health.size_histogram,
    )


def recorded_condition(looks: pa.Table) -> Condition | None:
    """The condition in the newest row of the record of health; None if there is no row.

    Args:
        looks: rows of the record, oldest first.
    """
    if not len(looks):
        return None
    newest = looks.slice(len(looks) - 1)
    look = newest.set_column(0, "looked_at", milliseconds(newest["looked_at"])).to_pylist()[0]
    return Condition(
        look["version"],
        look["timestamp"],
        look["looked_at"],
        look["score"],
        json.loads(look["reasons"]),
        {name: look.get(name) for name in NUMBERS},
        look["commits_per_day"],
        skipping=json.loads(look["skipping"]),
    )
