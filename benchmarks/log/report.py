"""Show the results as Markdown, for a terminal and for docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_Result = Mapping[str, Any]


def show(section: str, result: _Result) -> str:
    """The Markdown of a section's result."""
    return _SHOWN[section](result)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns for a terminal; all columns but the first are right-aligned."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return f"| {first[0]:<{first[1]}} | " + " | ".join(f"{text:>{width}}" for text, width in rest) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if i else "-") for i, width in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def seconds(value: float | None) -> str:
    """Seconds with three significant digits."""
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def _opening(result: _Result) -> str:
    rows = []
    for question in result["questions"].values():
        rows += _cold_rows(question)
        rows.append(_row(f"{question['title']}, warm", question, "warm"))
    return f"{result['files']:,} files\n\n" + table(_HEAD, rows) + f"\n\n{_WARM}"


def _committing(result: _Result) -> str:
    return "\n\n".join(map(_opening, result.values()))


def _pruning(result: _Result) -> str:
    return "\n\n".join(
        _chosen(section, "JSON only" if "json" in name else "JSON and structs") for name, section in result.items()
    )


def _partitions(result: _Result) -> str:
    return _chosen(result, "")


def _chosen(result: _Result, statistics_as: str) -> str:
    question = result["questions"]["prune"]
    rows = _cold_rows(question)
    rows += [
        _row("the predicate alone, first time", question, _first_look),
        _row("again, same condition", question, "warm"),
        _row("again, another value", question, "others"),
    ]
    about = f", statistics as {statistics_as}" if statistics_as else ""
    return f"{result['files']:,} files{about}\n\n" + table(_HEAD, rows)


def _refreshing(result: _Result) -> str:
    question = result["questions"]["refresh"]
    rows = [
        _row(question["title"], question, "warm"),
        _row("- with the plan that finds the new file", question, "others"),
    ]
    return f"{result['files']:,} files\n\n" + table(_HEAD, rows)


def _growth(result: _Result) -> str:
    head = [
        "files",
        "ours: prune",
        "as Arrow",
        "file_uris()",
        "peak MB",
        "delta-rs: prune",
        "as Arrow",
        "file_uris()",
        "peak MB",
    ]
    rows = []
    for count, section in result.items():
        cells = [f"{int(count):,}"]
        for name in ("ours", "delta-rs"):
            answers = {key: question["contestants"].get(name, {}) for key, question in section["questions"].items()}
            cells += [seconds(_median(answers[key].get("cold"))) for key in ("prune", "files", "uris")]
            peaks = [max(each["peak_mb"]) for each in answers.values() if each.get("peak_mb")]
            cells.append(f"{max(peaks):,.0f}" if peaks else "-")
        rows.append(cells)
    return table(head, rows)


def _scanning(result: _Result) -> str:
    rows = []
    for question in result["questions"]:
        for title, taken in ((question["title"], question), ("- processor seconds", question["cpu"])):
            to_spark, plain = (_median(taken[name]) for name in ("ours", "plain"))
            assert to_spark is not None
            assert plain is not None
            rows.append([title, seconds(to_spark), seconds(plain), f"{to_spark / plain:.2f}x"])
    about = f"{result['files']:,} files, {result['rows']:,} rows\n\n"
    return about + table(["", "to_spark", "plain Parquet", "to_spark / plain"], rows) + f"\n\n{_OPENED_AGAIN}"


#: Notes below the tables whose figures compare different work.
_WARM = "In a warm run, this library has the log in memory and only checks for changes. delta-rs reads the log again."
_OPENED_AGAIN = (
    "The log of the table is in memory, so opening the table only lists the log. Plain Parquet lists the folder each "
    "time."
)

_HEAD = ["", "ours", "delta-rs", "delta-rs / ours", "delta-spark", "delta-spark / ours"]
_SHOWN: dict[str, Callable[[_Result], str]] = {
    "open": _opening,
    "commits": _committing,
    "prune": _pruning,
    "refresh": _refreshing,
    "partitions": _partitions,
    "growth": _growth,
    "scan": _scanning,
}


def _cold_rows(question: _Result) -> list[list[str]]:
    return [
        _row(f"{question['title']}, cold", question, "cold"),
        _row("- with the interpreter's start", question, "process"),
        _row("- processor seconds", question, "cpu"),
        _row("- of which imports", question, "imports"),
        _row("- peak MB", question, "peak_mb", _megabytes),
    ]


def _row(
    title: str,
    question: _Result,
    what: str | Callable[[_Result], float | None],
    spelled: Callable[[float | None], str] = seconds,
) -> list[str]:
    values: dict[str, float | None] = {}
    cells = {}
    for name in ("ours", "delta-rs", "delta-spark"):
        figures = question["contestants"].get(name)
        figure = None if figures is None else what(figures) if callable(what) else _median(figures.get(what))
        values[name] = figure
        cells[name] = (
            figures["missing"].split(":")[0] if figures is not None and figures["missing"] else spelled(figure)
        )
    return [
        title,
        cells["ours"],
        cells["delta-rs"],
        _ratio(values["delta-rs"], values["ours"]),
        cells["delta-spark"],
        _ratio(values["delta-spark"], values["ours"]),
    ]


def _first_look(figures: _Result) -> float | None:
    if not figures["opened"]:  # the session was started before, so all of the time is the plan
        return _median(figures["cold"])
    return statistics.median(whole - opened for whole, opened in zip(figures["cold"], figures["opened"], strict=True))


def _ratio(peer: float | None, own: float | None) -> str:
    return f"{peer / own:.2f}x" if peer and own else "-"


def _megabytes(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _median(values: Sequence[float] | None) -> float | None:
    return statistics.median(values) if values else None
