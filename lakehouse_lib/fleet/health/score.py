"""The score of a table's health, from 0 to 100, with the reasons for all missing points.

A number costs no points up to a first threshold, and all of its points from a second threshold on. Between the two
thresholds, the points rise in proportion. Only problems that a verb can solve cost points. docs/health.md explains the
thresholds.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from lakehouse_lib.fleet.health.metrics import Health
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.operations.files import MOST_DELETED

#: With fewer joinable files, a compaction does not pay: opening ten files takes as long as reading 40 MB.
FEWEST_JOINABLE = 10


@dataclass(frozen=True)
class Reason:
    """A reason why points are missing.

    Attributes:
        name: stable, such as ``small_files``.
        points: the points that it costs, at least 1.
        sentence: the reason with its numbers.
        verb: the verb that removes the reason.
    """

    name: str
    points: int
    sentence: str
    verb: Verb


@dataclass(frozen=True)
class Score:
    """The score: 100 minus the points of the reasons, which are sorted by points."""

    points: int
    reasons: tuple[Reason, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"points": self.points, "reasons": [asdict(reason) for reason in self.reasons]}


def score(health: Health) -> Score:
    """The score of these metrics; 100 if no reason applies. If a number gets worse, the score does not rise."""
    causes = (_small_files, _poor_skipping, _deleted_rows, _log_to_replay, _reclaimable_files, _missing_statistics)
    reasons = [reason for cause in causes if (reason := cause(health)).points]
    return Score(100 - sum(reason.points for reason in reasons), tuple(sorted(reasons, key=lambda r: -r.points)))


def _small_files(health: Health) -> Reason:
    share = health.joinable_files / max(health.files, 1)
    return Reason(
        "small_files",
        _points(25, share, 0.1, 0.6) if health.joinable_files >= FEWEST_JOINABLE else 0,
        f"{health.joinable_files} of {health.files} files are below half of {health.target_file_size} bytes and can be "
        "joined",
        _rewrite(health),
    )


def _poor_skipping(health: Health) -> Reason:
    shares = health.skipping.values()
    mean = sum(shares) / max(len(shares), 1)
    files = max(1, min(health.files, math.ceil(health.bytes / max(health.target_file_size, 1))))
    possible = 1 - files ** (-1 / max(len(shares), 1))
    return Reason(
        "poor_skipping",
        _points(20, possible - mean, 0.15, 0.6) if shares and health.unclustered_files else 0,
        f"a query of one value of {', '.join(health.skipping)} skips {mean:.0%} of {health.files} files on average; "
        f"clustered files allow {possible:.0%}, and {health.unclustered_files} files are not clustered",
        "z_order",
    )


def _deleted_rows(health: Health) -> Reason:
    many = health.files_with_many_deleted_rows
    share = many / max(health.files, 1) if health.deleted_row_share is None else health.deleted_row_share
    return Reason(
        "deleted_rows",
        _points(15, share, MOST_DELETED, 0.3),
        f"deletion vectors hide {health.deleted_rows} rows, which queries must still read; {many} of {health.files} "
        f"files have more than {MOST_DELETED:.0%} such rows",
        _rewrite(health),
    )


def _log_to_replay(health: Health) -> Reason:
    return Reason(
        "log_to_replay",
        _points(15, health.checkpoint_lag, 1, 10),
        f"readers replay {health.commits_since_checkpoint} commits with {health.replayed_bytes} bytes since the last "
        "checkpoint",
        "checkpoint",
    )


def _reclaimable_files(health: Health) -> Reason:
    at_least = "at least " if health.is_reclaimable_partial else ""
    return Reason(
        "reclaimable_files",
        _points(15, health.reclaimable_bytes / max(health.bytes, 1), 0.1, 1),
        f"{at_least}{health.reclaimable_files} removed files with {health.reclaimable_bytes} bytes are past the "
        f"retention; the live files have {health.bytes} bytes",
        "vacuum",
    )


def _missing_statistics(health: Health) -> Reason:
    return Reason(
        "missing_statistics",
        _points(10, health.uncounted_files / max(health.files, 1), 0, 0.5),
        f"{health.uncounted_files} of {health.files} files have no statistics in the log, so every query reads them",
        "compute_statistics",
    )


def _rewrite(health: Health) -> Verb:
    """The verb with which the planner rewrites files if the rewrite pays.

    With Z-order columns, the verb is ``z_order``, because ``optimize`` would merge files that are Z-ordered later.
    """
    return "z_order" if health.clustered_by else "optimize"


def _points(most: int, value: float, first: float, last: float) -> int:
    """The points that a number costs: 0 up to ``first``, ``most`` from ``last`` on, in proportion between them."""
    return 0 if value <= first else max(1, round(most * min(1.0, (value - first) / (last - first))))
