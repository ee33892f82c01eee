"""The newest versions of a table on a time line, as an SVG image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_airflow.pages.views.commit import Commit
from lakehouse_airflow.pages.views.texts import time_text

WIDTH, _LEFT, _RIGHT, _TOP, _LANE, _BOTTOM = 720, 110, 12, 18, 30, 26

#: The lanes, with the prefixes of their operations. All other operations are in the first lane: they change rows.
_LANES = {
    "Rows": (),
    "Maintenance": ("OPTIMIZE", "VACUUM", "REORG", "COMPUTE STATISTICS", "FSCK", "PURGE", "CHECKPOINT"),
    "Schema": (
        "CREATE",
        "ADD ",
        "ALTER",
        "CHANGE ",
        "CLUSTER",
        "DROP ",
        "RENAME ",
        "REPLACE COLUMNS",
        "SET ",
        "UNSET ",
        "UPGRADE",
        "UPDATE SCHEMA",
    ),
}


@dataclass(frozen=True)
class Mark:
    """A version on the time line.

    Attributes:
        label: the version, its time and its operation in words.
    """

    version: int
    label: str
    x: float
    y: int


@dataclass(frozen=True)
class TimeLine:
    """The marks on the time line, and their lanes.

    Attributes:
        lanes: the name and the vertical place of each lane.
        start, end: the times of the oldest and the newest version, ms since the epoch.
    """

    marks: tuple[Mark, ...]
    lanes: tuple[tuple[str, int], ...]
    start: int
    end: int
    width: int = WIDTH
    height: int = _TOP + _LANE * len(_LANES) + _BOTTOM
    left: int = _LEFT


def time_line_of(commits: Sequence[Commit]) -> TimeLine | None:
    """The time line of the commits with a known time; None if there are fewer than two."""
    dated_commits = [(commit, commit.committed_at) for commit in commits if commit.committed_at is not None]
    if len(dated_commits) < 2:
        return None
    moments = [moment for _, moment in dated_commits]
    start, end = min(moments), max(moments)
    span, width = max(end - start, 1), WIDTH - _LEFT - _RIGHT
    places = {name: _TOP + _LANE * number + _LANE // 2 for number, name in enumerate(_LANES)}
    marks = [
        Mark(
            commit.version,
            _label(commit, moment),
            round(_LEFT + width * (moment - start) / span, 1),
            places[_lane(commit.operation)],
        )
        for commit, moment in reversed(dated_commits)
    ]
    return TimeLine(tuple(marks), tuple(places.items()), start, end)


def _lane(operation: str) -> str:
    text = operation.upper()
    return next((name for name, starts in _LANES.items() if text.startswith(starts)), "Rows") if text else "Rows"


def _label(commit: Commit, moment: int) -> str:
    author = commit.user or (commit.task.dag_id if commit.task is not None else commit.engine)
    parts = [f"Version {commit.version}, {time_text(moment)}: {commit.operation}", commit.summary]
    return "; ".join(filter(None, [*parts, f"by {author}" if author else ""]))
