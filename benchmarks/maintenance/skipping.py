"""The share of 100 files that a point query skips after a Z-order by four columns, for each layout, and its picture.

This is the experiment of the Delta paper (VLDB 2020) with uniform columns. Its Z-order skipped 67, 60, 47 and 44
percent. No layout can skip more than 1 - 100^(-1/4) = 68.4 percent on average.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.log.page import DOCS
from lakehouse_lib import DeltaTable, write_deltalake

COLUMNS = ("a", "b", "c", "d")
LAYOUTS = ("kd", "zorder", "hilbert")
PAPER = (67, 60, 47, 44)
PICTURE = "skipping.svg"
_FILES = 100
_QUERIES = 1_000
_BOUND = 100 * (1 - _FILES ** (-1 / len(COLUMNS)))
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 640, 300, 50, 40, 40
_COLOURS = ("#1f5fa8", "#4f93d8", "#9cc3ea", "#cfe2f6")


def measure(rows: int, layout: str) -> list[float]:
    """The percent of files that a point query on each column skips."""
    draw = np.random.default_rng(1)
    data = pa.table({name: draw.integers(0, 10**9, rows) for name in COLUMNS})
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, data)
        size = sum(file.stat().st_size for file in Path(folder).glob("*.parquet"))
        DeltaTable(folder).optimize.z_order(COLUMNS, target_size=size // _FILES, layout=layout, full=True)
        actions = DeltaTable(folder).get_add_actions()
        statistics = [json.loads(text) for text in DeltaTable(folder).snapshot.files["stats"].to_pylist()]
        count = len(actions)
    values = draw.integers(0, 10**9, _QUERIES)
    skipped = []
    for name in COLUMNS:
        low, high = (np.array([each[kind][name] for each in statistics]) for kind in ("minValues", "maxValues"))
        reads = ((low[:, None] <= values) & (values <= high[:, None])).sum() / (_QUERIES * count)
        skipped.append(100 * (1 - float(reads)))
    return skipped


def picture(skipped: Mapping[str, Sequence[float]]) -> str:
    """Bars of each column, for each layout, with the bound as a line."""
    groups = [*skipped.items(), ("Z-order in the paper", PAPER)]
    step = (_WIDTH - _LEFT) / len(groups)
    wide = step / (len(COLUMNS) + 2)

    def up(percent: float) -> float:
        return _HEIGHT - _BOTTOM - percent / 100 * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"',
        f' font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20">Percent of {_FILES} files that a point query on each of four columns skips</text>',
    ]
    for percent in (0, 25, 50, 75):
        parts.append(f'<path d="M{_LEFT} {up(percent):.1f}H{_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{up(percent) + 4:.1f}" text-anchor="end">{percent}</text>')
    for number, (title, percents) in enumerate(groups):
        for place, percent in enumerate(percents):
            x = _LEFT + number * step + (place + 1) * wide
            height = up(0) - up(percent)
            parts.append(
                f'<rect x="{x:.1f}" y="{up(percent):.1f}" width="{wide - 2:.1f}" height="{height:.1f}"'
                f' fill="{_COLOURS[place]}"/>'
            )
        middle = _LEFT + number * step + step / 2
        mean = sum(percents) / len(percents)
        parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 22}" text-anchor="middle">{title}</text>')
        parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">mean {mean:.1f}</text>')
    parts.append(f'<path d="M{_LEFT} {up(_BOUND):.1f}H{_WIDTH}" stroke="#b3541e" stroke-dasharray="5 4"/>')
    parts.append(f'<text x="{_WIDTH - 6}" y="{up(_BOUND) - 5:.1f}" fill="#b3541e" text-anchor="end">bound</text></svg>')
    return "\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance.skipping", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help=f"draw docs/{PICTURE}")
    options = parser.parse_args(arguments)
    skipped = {layout: measure(options.rows, layout) for layout in LAYOUTS}
    for layout, percents in skipped.items():
        shown = ", ".join(f"{percent:.1f}" for percent in percents)
        print(f"{layout:8} {shown}; mean {np.mean(percents):.1f}, bound {_BOUND:.1f}")
    if options.write:
        (DOCS / PICTURE).write_text(picture(skipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
