"""Show the result of a case as Markdown, for a terminal and for docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.log.report import seconds, table

_Result = Mapping[str, Any]

_HEAD = ["", "median", "vs delta-rs", "vs delta-spark", "peak MB", "files opened", "files after", "runs"]


def show(_: str, result: _Result) -> str:
    """The Markdown of a case's result: a line for each contestant."""
    contestants = result["contestants"]
    medians = {name: statistics.median(run["seconds"] for run in runs["runs"]) for name, runs in contestants.items()}
    rows = []
    for name, measured in contestants.items():
        runs = measured["runs"]
        rows.append(
            [
                name,
                seconds(medians[name]),
                *(_ratio(medians.get(peer), medians[name]) for peer in ("delta-rs", "delta-spark")),
                f"{max(run['peak_mb'] for run in runs):,.0f}",
                f"{max(run['opened'] for run in runs):,}",
                f"{measured['files']:,}",
                " ".join(f"{run['seconds']:.2f}" for run in runs),
            ]
        )
    lines = [f"{result['title']}; {result['rows']:,} rows. Rows and checksum are correct.{_changed(result)}"]
    lines += [table(_HEAD, rows)]
    for name, measured in contestants.items():
        if measured["skipped"]:
            shares = ", ".join(f"{column} {share:.0%}" for column, share in measured["skipped"].items())
            lines.append(f"- {name}: a point predicate skips these shares of the files: {shares}")
    return "\n\n".join(lines[:2]) + ("\n\n" + "\n".join(lines[2:]) if lines[2:] else "")


def _changed(result: _Result) -> str:
    changed = result["files_with_changed_rows"]
    return "" if changed is None else f" {changed:,} of {result['files']:,} files have rows that change."


def _ratio(peer: float | None, own: float) -> str:
    return "-" if peer is None else f"{peer / own:.2f}x"
