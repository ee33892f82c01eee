"""Load source files like TPC-H's lineitem beside plain Spark, which reads them and writes Parquet without any check.

Each run is a whole process. The rows that a run has written are compared with those of plain Spark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from benchmarks.ingest import files
from benchmarks.log.report import seconds, table
from benchmarks.memory import Peak, family
from benchmarks.process import ROOT
from lakehouse_lib.schema import Schema


class Case(NamedTuple):
    """Source files: their format, and their number."""

    kind: str
    files: int


CASES = {
    "csv": Case("csv", 8),
    "one file": Case("csv", 1),
    "small files": Case("csv", 2000),
    "json": Case("json", 8),
    "parquet": Case("parquet", 8),
}
CONTESTANTS = ("plain Spark", "load", "load, four rules")


class Run(NamedTuple):
    """A run: seconds of the process, seconds without the start of the session (None: no session), peak memory."""

    seconds: float
    without_start: float | None
    peak_mb: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=836, help="size of the files as CSV (%(default)s)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contestant (%(default)s)")
    parser.add_argument("--home", type=Path, default=ROOT / ".bench", help="folder of the files (default: .bench)")
    options = parser.parse_args(arguments)
    home = options.home.resolve() / "ingest"
    for name in options.cases:
        shutil.rmtree(home, ignore_errors=True)
        try:
            print(_measured(home, name, options.megabytes, options.runs), flush=True)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return 0


def _measured(home: Path, name: str, megabytes: float, count: int) -> str:
    case = CASES[name]
    landing = home / "landing"
    size = files.write(landing, case.kind, megabytes, case.files)
    (home / "schema.json").write_text(Schema.from_arrow(files.SCHEMA).to_json())
    (home / "suite.json").write_text(json.dumps(files.SUITE))
    runs: dict[str, list[Run]] = {contestant: [] for contestant in CONTESTANTS}
    sums: dict[str, tuple[object, ...]] = {}
    for _ in range(count):
        for contestant in CONTESTANTS:
            out = home / "out"
            runs[contestant].append(_run(_command(contestant, home, out, case.kind)))
            sums[contestant] = _sums(out)
            shutil.rmtree(out)
    if len(set(sums.values())) > 1:
        raise AssertionError(f"the rows differ: {sums}")
    rows = sums[CONTESTANTS[0]][0]
    return f"\n## {name}: {case.files} files, {size / 1e6:,.0f} MB, {rows:,} rows\n\n{_shown(runs)}\n"


def _command(contestant: str, home: Path, out: Path, kind: str) -> list[str]:
    landing = str(home / "landing")
    if contestant == "plain Spark":
        return [sys.executable, "-m", "benchmarks.ingest.plain_spark", landing, str(out), kind]
    suite = ["--suite", str(home / "suite.json")] if "rules" in contestant else []
    return [
        *(sys.executable, "-m", "spark_jobs.ingest", "--table", str(out), "--landing", landing, "--source", "bench"),
        *("--format", kind, "--schema", str(home / "schema.json"), "--quarantine", str(home / "quarantine")),
        *("--files-per-batch", "1000000", *suite),
    ]


def _run(command: Sequence[str]) -> Run:
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        with Peak(lambda: family(process.pid)) as peak:
            output, errors = process.communicate()
        taken = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {errors[-2000:]}")
    last = output.splitlines()[-1]
    return Run(taken, None if last.startswith("{") else float(last), peak.megabytes)


def _sums(folder: Path) -> tuple[object, ...]:
    """The number of rows in the Parquet files of a folder, and a checksum of them."""
    columns = ", ".join(files.SCHEMA.names)
    query = f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM read_parquet('{folder}/*.parquet')"
    row = duckdb.sql(query).fetchone()
    assert row is not None
    return row


def _shown(runs: Mapping[str, Sequence[Run]]) -> str:
    medians = {name: statistics.median(run.seconds for run in measured) for name, measured in runs.items()}
    spark = runs[CONTESTANTS[0]]
    without = statistics.median(run.without_start or run.seconds for run in spark)
    rows = [
        [
            name,
            seconds(medians[name]),
            f"{medians[CONTESTANTS[0]] / medians[name]:.1f}x",
            f"{without / medians[name]:.1f}x",
            f"{max(run.peak_mb for run in measured):,.0f}",
        ]
        for name, measured in runs.items()
    ]
    head = ["", "whole process", "faster than Spark", "than Spark without its start", "peak MB"]
    return table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
