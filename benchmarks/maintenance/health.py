"""Compute the health of a table of a million files, in a new process each: seconds to open it, and then for its health.

The table is that of the log benchmark (``benchmarks.log.tables``): a log without data files, made once. Open means that
the version is loaded and its files are counted; health then reads the columns of the checkpoint that it needs.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.log.tables import Shape, make
from benchmarks.process import ROOT

_COLUMN = "id"  # the ranges of the files do not overlap


def measure(table: Path) -> dict[str, float]:
    """Compute the health of a table in this process, check it, and measure the time."""
    from lakehouse_lib.fleet.health import health
    from lakehouse_lib.snapshot import load_snapshot
    from lakehouse_lib.store import open_store

    start = time.perf_counter()
    snapshot = load_snapshot(open_store(table))
    count = snapshot.file_count
    opened = time.perf_counter()
    metrics = health(snapshot, clustered_by=[_COLUMN])
    end = time.perf_counter()
    facts = (metrics.files, count, metrics.clustering)
    expected = Shape.of(table.name).live
    if facts != (expected, expected, {_COLUMN: 1.0}):
        raise SystemExit(f"the health is {facts}; expected {expected} files that do not overlap")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"open": opened - start, "health": end - opened, "peak MB": peak}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance.health", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000, help="files of the table (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes; the median counts (%(default)s)")
    parser.add_argument("--home", type=Path, default=ROOT / ".bench", help="folder of the tables (default: .bench)")
    parser.add_argument("--in-this-process", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.in_this_process:
        print(json.dumps(measure(options.in_this_process)))
        return 0
    if options.rounds < 1 or options.files < 100:
        parser.error("expected at least 1 round, and a table of at least 100 files")
    for shape in (Shape(options.files), Shape(options.files, partitioned=True)):
        table = make(options.home.resolve(), shape)
        command = [sys.executable, "-m", "benchmarks.maintenance.health", "--in-this-process", str(table)]
        runs = [
            json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout)
            for _ in range(options.rounds)
        ]
        opened, health, peak = (statistics.median(run[name] for run in runs) for name in ("open", "health", "peak MB"))
        print(f"{shape.name}: open {opened:.1f} s, health {health:.1f} s, {peak:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
