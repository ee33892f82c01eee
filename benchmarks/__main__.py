"""Time verbs beside delta-rs and delta-spark, check the results, and print a table for each case.

Contestants alternate in each round. delta-rs and the Arrow engine run in a new process each time. This library on
Spark and delta-spark have a session each, which is started before. Each run has a new copy of its table, with its files
in the page cache. Results are stored by case; --write puts them into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import checks, data, delta_spark, report
from benchmarks.cases import CASES, Case, chosen
from benchmarks.log import page
from benchmarks.process import ROOT, SESSIONS, ContestantProcess, Run

CONTESTANTS = ("arrow", "spark", "delta-rs", "delta-spark")
HOME = ROOT / ".bench"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the tables (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each contestant; the median counts (%(default)s)"
    )
    parser.add_argument(
        "--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS, help="arrow and spark are this library"
    )
    parser.add_argument(
        "--cases",
        nargs="+",
        default=["delete", "update", "merge", "clustered"],
        help=f"cases, or first words of their names: {', '.join(CASES)} (default: delete update merge clustered)",
    )
    parser.add_argument("--home", type=Path, default=HOME, help="folder of tables and results (default: .bench)")
    parser.add_argument("--write", action="store_true", help="put the stored results into docs/benchmarks.md")
    parser.add_argument(
        "--write-only", action="store_true", help="put the stored results into docs/benchmarks.md without measuring"
    )
    options = parser.parse_args(arguments)
    home = options.home.resolve()
    results = home / "verb-results"
    if not options.write_only:
        names = _check(parser, options)
        home.mkdir(parents=True, exist_ok=True)
        print(f"{options.rows:,} rows x 6 columns, {os.cpu_count()} processors, median of {options.rounds}", flush=True)
        with _sessions(options.contestants, home) as sessions:
            for name in names:
                case = CASES[name](home, options.rows)

                def measure(case: Case = case) -> dict[str, Any]:
                    return _contest(case, options.rows, options.contestants, options.rounds, home, sessions)

                record = page.keep(results, name, options.rounds, measure)
                print(f"\n## {name}: {page.taken(record)}\n\n{report.show(name, record['result'])}", flush=True)
    if options.write or options.write_only:
        page.fill_page(page.DOCS / "benchmarks.md", results, report.show)
    return 0


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    """The names of the chosen cases."""
    if options.rows < data.SMALL_FILES or options.rows % data.SMALL_FILES:
        parser.error(f"--rows is {options.rows}; expected a multiple of {data.SMALL_FILES}")
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected at least 1")
    try:
        names = chosen(options.cases)
    except ValueError as error:
        parser.error(str(error))
    if "delta-spark" in options.contestants and not delta_spark.PYTHON.exists():
        parser.error(f"{delta_spark.PYTHON} is missing; `make bench-dml` creates it")
    return names


@contextmanager
def _sessions(contestants: Sequence[str], home: Path) -> Iterator[dict[str, ContestantProcess]]:
    sessions: dict[str, ContestantProcess] = {}
    try:
        for name in contestants:
            if name in SESSIONS:
                sessions[name] = ContestantProcess(name, home / f"{name}.log")
        yield sessions
    finally:
        for session in sessions.values():
            session.close()


def _contest(
    case: Case,
    rows: int,
    contestants: Sequence[str],
    rounds: int,
    home: Path,
    sessions: Mapping[str, ContestantProcess],
) -> dict[str, Any]:
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    ends: dict[str, dict[str, Any]] = {}
    expected = checks.content(case.source, case.expected)
    for number in range(rounds):
        for name in contestants:
            # A path for each run, because a session caches the log of an earlier table at the same path.
            table = home / f"{case.verb}-{case.source.name}-{name}-{number}"
            data.copy(case.source, table)
            process = sessions.get(name) or ContestantProcess(name, home / f"{name}.log")
            runs[name].append(process.run(case.verb, table, case.arguments))
            if name not in sessions:
                process.close()
            content = checks.content(table)
            if content != expected:
                raise SystemExit(f"{name}: {case.title}: the table {table} has {content}; expected {expected}")
            ends[name] = {"files": len(checks.files(table)), "skipped": _skipped(case, table)}
            shutil.rmtree(table)
    return {
        "title": case.title[0].upper() + case.title[1:],
        "rows": rows,
        "files": len(checks.files(case.source)),
        "files_with_changed_rows": None if case.changed is None else checks.files_with_rows(case.source, case.changed),
        "contestants": {name: {"runs": [run._asdict() for run in runs[name]], **ends[name]} for name in contestants},
    }


def _skipped(case: Case, table: Path) -> dict[str, float]:
    if case.verb != "z_order":
        return {}
    return {column: checks.skipped(table, column) for column in case.arguments["columns"]}


if __name__ == "__main__":
    sys.exit(main())
