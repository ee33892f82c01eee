"""Time verbs beside delta-rs, check the results, and print a table for each.

Contestants alternate in each round. delta-rs and the Arrow engine run in a new process each time, Spark in one session
that is started before. Each run has a new copy of its table, with its files in the page cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import checks, data

VERBS = ("compact", "z_order", "delete", "update", "merge")
CONTESTANTS = ("delta-rs", "arrow", "spark")
OUTPUT_FILES = 16
HOME = Path(__file__).resolve().parent.parent / ".bench"


class Verb(NamedTuple):
    """A verb and its table.

    Attributes:
        left: the condition that the remaining rows fulfil; None: the rows must be those of delta-rs' result.
    """

    name: str
    title: str
    source: Path
    arguments: dict[str, Any]
    left: str | None = "true"


class Run(NamedTuple):
    seconds: float
    peak_mb: float


class Result(NamedTuple):
    """The runs of a contestant with a verb, and the resulting table."""

    runs: list[Run]
    files: int
    skipped: dict[str, float]

    @property
    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def peak_mb(self) -> float:
        return max(run.peak_mb for run in self.runs)


class Contestant:
    """A contestant's process."""

    def __init__(self, name: str, log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.contestant", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=HOME.parent,
            )
        self._name, self._log = name, log
        self._answer()

    def run(self, verb: Verb, table: Path) -> Run:
        assert self._process.stdin is not None
        request = {"verb": verb.name, "table": str(table), "arguments": verb.arguments}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return Run(**self._answer())

    def close(self) -> None:
        assert self._process.stdin is not None
        with self._process:
            self._process.stdin.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} failed; {self._log} has the reason")
        return json.loads(line)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the tables (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each contestant; the median counts (%(default)s)"
    )
    parser.add_argument(
        "--engines", nargs="+", choices=CONTESTANTS[1:], default=CONTESTANTS[1:], help="engines to time"
    )
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=VERBS[:3], help="verbs to time (%(default)s)")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of the data (default: .bench)")
    options = parser.parse_args(arguments)
    if options.rows < data.SMALL_FILES or options.rows % data.SMALL_FILES:
        parser.error(f"--rows is {options.rows}; expected a multiple of {data.SMALL_FILES}")
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected at least 1")
    options.home.mkdir(parents=True, exist_ok=True)
    print(f"{options.rows:,} rows x 6 columns, {os.cpu_count()} processors, median of {options.rounds}", flush=True)
    contestants = ["delta-rs", *options.engines]
    with _spark(contestants, options.home) as spark:
        for verb in _verbs(options.home, options.rows):
            if verb.name not in options.verbs:
                continue
            _print(verb, _contest(verb, contestants, options.rounds, options.home, spark))
    return 0


def _verbs(home: Path, rows: int) -> list[Verb]:
    small, big, marked = data.make(home, rows)
    customer = data.customers(rows) // 2
    tables = ((big, ""), (marked, ", deletion vectors enabled"))
    size = sum(Path(path).stat().st_size for path in checks.files(small))
    return [
        Verb("compact", f"compact {data.SMALL_FILES} files", small, {}),
        Verb(
            "z_order",
            f"z_order {data.SMALL_FILES} files by customer and item into {OUTPUT_FILES}",
            small,
            {"columns": ["customer", "item"], "target_size": math.ceil(size / OUTPUT_FILES)},
        ),
        Verb(
            "delete",
            f"delete one customer from {data.BIG_FILES} big files",
            big,
            {"predicate": f"customer = {customer}"},
            left=f"customer <> {customer}",
        ),
        Verb(
            "delete",
            f"delete one customer from {data.BIG_FILES} big files, deletion vectors enabled",
            marked,
            {"predicate": f"customer = {customer}"},
            left=f"customer <> {customer}",
        ),
        *(
            Verb(
                "update",
                f"update one customer in {data.BIG_FILES} big files{suffix}",
                table,
                {"updates": {"quantity": "quantity + 1"}, "predicate": f"customer = {customer}"},
                left=None,
            )
            for table, suffix in tables
        ),
        *(
            Verb(
                "merge",
                f"merge {count:,} orders into {data.BIG_FILES} big files{suffix}",
                table,
                {"source": str(data.changes(home, rows, count))},
                left=None,
            )
            for count in (rows // 1_000, rows // 10)
            for table, suffix in tables
        ),
    ]


@contextmanager
def _spark(contestants: Sequence[str], home: Path) -> Iterator[Contestant | None]:
    session = Contestant("spark", home / "spark.log") if "spark" in contestants else None
    try:
        yield session
    finally:
        if session is not None:
            session.close()


def _contest(
    verb: Verb, contestants: Sequence[str], rounds: int, home: Path, spark: Contestant | None
) -> dict[str, Result]:
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    left: dict[str, tuple[int, dict[str, float]]] = {}
    expected = None if verb.left is None else checks.content(verb.source, verb.left)
    for _ in range(rounds):
        for name in contestants:
            table = home / f"{verb.name}-{name}"
            data.copy(verb.source, table)
            process = spark if name == "spark" and spark is not None else Contestant(name, home / f"{name}.log")
            runs[name].append(process.run(verb, table))
            if process is not spark:
                process.close()
            content = checks.content(table)
            expected = content if expected is None else expected  # delta-rs is the first contestant
            if content != expected:
                raise SystemExit(f"{name} {verb.name}: the table {table} has {content}; expected {expected}")
            left[name] = len(checks.files(table)), _skipped(verb, table)
            shutil.rmtree(table)
    return {name: Result(runs[name], *left[name]) for name in contestants}


def _skipped(verb: Verb, table: Path) -> dict[str, float]:
    if verb.name != "z_order":
        return {}
    return {column: checks.skipped(table, column) for column in verb.arguments["columns"]}


def _print(verb: Verb, results: dict[str, Result]) -> None:
    peer = results["delta-rs"].seconds
    print(f"\n{verb.title}: rows and checksum are correct")
    print(f"  {'':10} {'seconds':>8} {'delta-rs / it':>14} {'peak MB':>8} {'files':>6}  runs")
    for name, result in results.items():
        each = " ".join(f"{run.seconds:.2f}" for run in result.runs)
        print(
            f"  {name:10} {result.seconds:8.2f} {peer / result.seconds:13.2f}x {result.peak_mb:8.0f} "
            f"{result.files:6}  {each}",
            end="",
        )
        points = ", ".join(f"{column} {share:.0%}" for column, share in result.skipped.items())
        print(f"   files that a point predicate skips: {points}" if points else "", flush=True)


if __name__ == "__main__":
    sys.exit(main())
