"""The score of a table over time, as a line in an SVG image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse_airflow.pages.views.fleet import milliseconds
from lakehouse_airflow.pages.views.texts import time_text

WIDTH, HEIGHT, _LEFT, _TOP, _BOTTOM = 720, 150, 34, 10, 24
#: The largest number of points of the line. More points make no difference in the image.
_MOST_POINTS = 360


@dataclass(frozen=True)
class Trend:
    """The line, and a description for readers who do not see the line.

    Attributes:
        points: the points of the line, for the attribute ``points`` of ``polyline``.
        start, end: the times of the first and the last score, ms since the epoch.
        grid: the scores with a horizontal line across the image, with the vertical places of these lines.
    """

    points: str
    start: int
    end: int
    description: str
    grid: tuple[tuple[int, float], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT


def trend_of(looks: pa.Table) -> Trend | None:
    """The trend of the score.

    Args:
        looks: rows of ``HealthRecord.series``, oldest first.

    Returns:
        None if there are fewer than two rows.
    """
    if len(looks) < 2:
        return None
    times = np.asarray(milliseconds(looks["looked_at"]))
    scores = np.asarray(looks["score"])
    indices = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).round().astype(np.int64))
    span = max(int(times[-1] - times[0]), 1)
    x = _LEFT + (WIDTH - _LEFT) * (times[indices] - times[0]) / span
    points = " ".join(f"{left:.1f},{_height(score):.1f}" for left, score in zip(x, scores[indices], strict=True))
    start, end = int(times[0]), int(times[-1])
    description = (
        f"{len(times):,} measurements from {time_text(start)} to {time_text(end)}: first {scores[0]}, "
        f"lowest {scores.min()}, highest {scores.max()}, last {scores[-1]}"
    )
    return Trend(points, start, end, description, tuple((score, _height(score)) for score in (0, 50, 100)))


def _height(score: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * float(score) / 100
