"""Plot times over the number of files of a table, as SVG with logarithmic axes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 760, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 200, 30, 50
_LINES = (
    ("delta-rs", "uris", "delta-rs: file_uris()", "#b3541e", ""),
    ("delta-rs", "prune", "delta-rs: prune", "#b3541e", "6 4"),
    ("ours", "uris", "ours: file_uris()", "#1f5fa8", ""),
    ("ours", "files", "ours: files() as Arrow", "#1f5fa8", "2 3"),
    ("ours", "prune", "ours: prune", "#1f5fa8", "6 4"),
)


def growth(result: Mapping[str, Any]) -> str:
    """The plot of cold seconds over files, with a line for each question and contestant."""
    lines = []
    for contestant, question, title, colour, dashes in _LINES:
        points = []
        for count, section in result.items():
            cold = section["questions"][question]["contestants"].get(contestant, {}).get("cold")
            if cold:
                points.append((int(count), statistics.median(cold)))
        if points:
            lines.append((title, colour, dashes, points))
    counts = [x for *_, points in lines for x, _ in points]
    times = [y for *_, points in lines for _, y in points]
    across = _axis(counts, _LEFT, _WIDTH - _RIGHT)
    up = _axis(times, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="18">Seconds from a new process to the answer, by files of the table</text>',
    ]
    for power in _decades(counts):
        x = across(10**power)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>')
    for power in _decades(times):
        y = up(10**power)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    labels = _apart([up(points[-1][1]) for *_, points in lines])
    for (title, colour, dashes, points), label in zip(lines, labels, strict=True):
        spots = [(across(x), up(y)) for x, y in points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        parts.append(f'<text x="{spots[-1][0] + 10:.1f}" y="{label + 4:.1f}" fill="{colour}">{escape(title)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: list[float] | list[int]) -> range:
    return range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)


def _axis(values: list[float] | list[int], start: float, end: float) -> Any:
    decades = _decades(values)
    first, span = decades[0], max(1, decades[-1] - decades[0])
    return lambda value: start + (end - start) * (math.log10(value) - first) / span


def _apart(heights: list[float], gap: float = 15) -> list[float]:
    """The heights of labels, moved apart so that labels do not overlap."""
    moved = list(heights)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + gap)
    return moved
