"""The condition of a table: as measured now, or as the newest record has it."""

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

#: The numbers that the page shows. Each is an attribute of ``Health``; the record lacks some of them.
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
        timestamp: of the version.
        looked_at: when it was recorded; None: it was measured for this page.
        points, reasons: the score.
        numbers: those of ``NUMBERS``.
        clustered_by: the columns by which it is clustered; the record lacks them.
        clustering, skipping: by column, as in ``Health``.
        histogram: empty in the record.
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
    """The condition of the newest of some looks, oldest first; None: there is none."""
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
