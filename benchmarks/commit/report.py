"""Show the results as Markdown, for a terminal and for docs/commit-benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.commit.committers import NAMES
from benchmarks.log.report import seconds, table

_Result = Mapping[str, Any]
_HEAD = ["", "ours", "ours, synced", "delta-rs", "delta-rs / ours", "delta-rs / ours, synced"]


def show(section: str, result: _Result) -> str:
    """The Markdown of a section's result."""
    return _SHOWN[section](result)


def _appending(result: _Result) -> str:
    parts = []
    for interval, section in result.items():
        about = (
            "the default checkpoint interval of each library"
            if interval == "default"
            else f"a checkpoint every {interval} commits"
        )
        rows = []
        for question in section["questions"].values():
            rows += [
                _row(f"{section['appends']} appends, {question['title']}", question, "total"),
                _row("- median of one append", question, "warm"),
                _row("- processor seconds of the process", question, "cpu"),
                _row("- with interpreter and imports", question, "process"),
                _row("- peak MB", question, "peak_mb", lambda value: f"{value:,.0f}"),
            ]
        parts.append(f"With {about}:\n\n" + table(_HEAD, rows))
    return "\n\n".join(parts)


def _writing(result: _Result) -> str:
    rows: list[list[str]] = []
    if not result["questions"]:
        return "Not measured: LAKEHOUSE_BENCH_S3 names no folder (s3://bucket/folder)"
    for count, question in result["questions"].items():
        who = f"{count} writer{'' if count == '1' else 's'}"
        rows += [
            _row(f"{who}: commits per second", question, "rate", lambda value: f"{value:.1f}", larger_is_better=True),
            _row("- lost races per commit", question, "retries", lambda value: f"{value:.2f}", compared=False),
            _row("- commits given up and tried again", question, "given_up", lambda v: f"{v:.0f}", compared=False),
            _row("- peak MB of all", question, "peak_mb", lambda value: f"{value:,.0f}"),
        ]
    return f"{result['commits']} appends in all\n\n" + table(_HEAD, rows)


def _conflicts(result: _Result) -> str:
    rows = [
        _row(f"{question['title']} after {result['others']:,} winning commits", question, "warm")
        for question in result["questions"].values()
    ]
    return table(_HEAD, rows)


def _growing(result: _Result) -> str:
    rows = []
    for count, section in result.items():
        question = section["questions"]["size"]
        rows += [
            _row(f"{int(count):,} files: the first append of a process", question, "first"),
            _row("- later appends, each opens the table", question, "warm"),
            _row("- appends to a table that stays open", question, "open"),
            _row("- an append that lost a race", question, "lost"),
            _row("- peak MB", question, "peak_mb", lambda value: f"{value:,.0f}"),
        ]
    return table(_HEAD, rows)


_SHOWN: dict[str, Callable[[_Result], str]] = {
    "appends": _appending,
    "writers": _writing,
    "s3": _writing,
    "conflicts": _conflicts,
    "sizes": _growing,
}


def _row(
    title: str,
    question: _Result,
    what: str,
    spelled: Callable[[float], str] = seconds,
    *,
    larger_is_better: bool = False,
    compared: bool = True,
) -> list[str]:
    values = [_median(question["contestants"].get(name), what) for name in NAMES]
    cells = ["-" if value is None else spelled(value) for value in values]
    for own in values[:2]:
        peer = values[2]
        if not compared or not own or not peer:
            cells.append("-")
        else:
            cells.append(f"{own / peer if larger_is_better else peer / own:.2f}x")
    return [title, *cells]


def _median(figures: _Result | None, what: str) -> float | None:
    if figures is None:
        return None
    values: Sequence[float] = figures["more"].get(what, []) or figures.get(what, [])
    return statistics.median(values) if values else None
