"""Time checkpoints of a table of many files beside delta-rs, and V2 checkpoints after small changes.

Contestants alternate, each in its own process. This library is measured twice: without fsync, because delta-rs makes
none, and with fsync, its default. Results are stored; --write puts them into docs/large-tables.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import histories
from benchmarks.log import page
from benchmarks.log.contest import Question, contest
from benchmarks.log.report import seconds, table

HOME = Path(__file__).resolve().parent.parent.parent / ".bench"
_CONTESTANTS = ("ours", "ours-synced", "delta-rs")
_SECTION = "checkpoints"


def measure(home: Path, files: int, rounds: int) -> dict[str, Any]:
    """Measure every history, ``rounds`` times."""
    results = {}
    for name, path in histories.make(home, files).items():
        question = Question(name, histories.TITLES[name], module="benchmarks.checkpoints.runs")
        measurements = contest(path, [question], _CONTESTANTS, rounds)[name]
        results[name] = {who: dataclasses.asdict(measured) for who, measured in measurements.items()}
    return {"files": files, "histories": results}


def show(_: str, result: Mapping[str, Any]) -> str:
    """The result as Markdown."""
    rows = []
    for name, contestants in result["histories"].items():
        rows += [
            _row(histories.TITLES[name], contestants, "checkpoint", seconds),
            _row("- with opening the table", contestants, "with_opening", seconds),
            _row("- processor seconds", contestants, "checkpoint_cpu", seconds),
            _row("- megabytes written", contestants, "megabytes", "{:,.1f}".format),
            _row("- peak MB of the process", contestants, "peak_mb", "{:,.0f}".format),
        ]
    head = ["", "ours", "ours, synced", "delta-rs", "delta-rs / ours", "delta-rs / ours, synced"]
    return f"{result['files']:,} files\n\n" + table(head, rows)


def _row(title: str, contestants: Mapping[str, Any], what: str, spelled: Callable[[float], str]) -> list[str]:
    values = []
    for name in _CONTESTANTS:
        contestant = contestants[name]
        runs = contestant["more"].get(what, []) if what != "peak_mb" else contestant["peak_mb"]
        values.append(statistics.median(runs) if runs else None)
    cells = [
        contestant["missing"] or "-" if value is None else spelled(value)
        for value, contestant in zip(values, contestants.values(), strict=True)
    ]
    peer = values[2]
    return [title, *cells, *(f"{peer / own:.1f}x" if own and peer else "-" for own in values[:2])]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoints", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="runs of each contestant; the median counts (%(default)s)"
    )
    parser.add_argument("--files", type=int, default=1_000_000, help="files of the table (%(default)s)")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of tables and results (default: .bench)")
    parser.add_argument("--write", action="store_true", help="put the results into docs/large-tables.md")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected at least 1")
    if options.files < 1000:
        parser.error(f"--files is {options.files}; expected at least 1000")
    results = options.home.resolve() / "checkpoint-results"
    record = page.keep(
        results, _SECTION, options.rounds, lambda: measure(options.home.resolve(), options.files, options.rounds)
    )
    print(f"{page.taken(record)}\n\n{show(_SECTION, record['result'])}", flush=True)
    if options.write:
        page.fill_page(page.DOCS / "large-tables.md", results, show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
