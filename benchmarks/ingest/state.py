"""Time a load that finds nothing new among many loaded files, and a load of many batches of one small file.

Each run is a whole process of ``spark_jobs.ingest``. Files that count as loaded are empty, and are put into the state
without a load.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.ingest import files
from benchmarks.log.report import seconds, table
from benchmarks.process import ROOT
from lakehouse_lib.ingestion.landing import open_landing
from lakehouse_lib.ingestion.state.folds import Fold, Folds
from lakehouse_lib.ingestion.state.settled_files import SETTLED
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import open_store

_FILES_IN_A_FOLDER = 10_000
_BATCHES = 100
_PATTERN = "**/*.csv"


class Times(NamedTuple):
    """The seconds that a process takes, and those in which it computes."""

    seconds: float
    computing: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest.state", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000, help="loaded files (%(default)s)")
    parser.add_argument("--home", type=Path, default=ROOT / ".bench", help="folder of the files (default: .bench)")
    options = parser.parse_args(arguments)
    home = options.home.resolve() / "ingest-state"
    shutil.rmtree(home, ignore_errors=True)
    try:
        rows = [_row("nothing new", f"{options.files:,} loaded files", _nothing_new(home / "loaded", options.files))]
        first, batch = _batches(home)
        rows += [_row("first batch", "1 file", first), _row("a later batch", f"mean of {_BATCHES}", batch)]
        print(table(["load", "state", "whole process", "computing"], rows))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _row(name: str, state: str, times: Times) -> list[str]:
    return [name, state, seconds(times.seconds), seconds(times.computing)]


def _nothing_new(home: Path, count: int) -> Times:
    for start in range(0, count, _FILES_IN_A_FOLDER):
        folder = home / f"landing/part={start:09}"
        folder.mkdir(parents=True)
        for number in range(start, min(start + _FILES_IN_A_FOLDER, count)):
            os.close(os.open(folder / f"{number:09}.csv", os.O_CREAT))
    (home / "out").mkdir()
    folds, fold = Folds(open_store(str(home / "out")), "_ingest/bench"), Fold()
    for part in open_landing(home / "landing", pattern=_PATTERN).files():
        number = fold.through + 1
        batches, nulls = pa.repeat(pa.scalar(number, pa.int64()), len(part)), pa.nulls(len(part), pa.string())
        # The digest is the name. No file was refused, and no file names its definition.
        columns = [part["name"], part["size"], part["modified"], part["name"], batches, nulls, nulls]
        rows = pa.Table.from_arrays(columns, schema=SETTLED)
        added = folds.add(fold, rows, through=number, loaded=None, watermark=None)
        assert added is not None
        fold = added
    return _load(home)


def _batches(home: Path) -> tuple[Times, Times]:
    """The times of a load of one batch, and of each other batch of a load of many."""
    for name, count in (("one", 1), ("many", 1 + _BATCHES)):
        files.write(home / name / "landing", "csv", count / 100, count)
    first, all_batches = _load(home / "one"), _load(home / "many")
    return first, Times(*((late - early) / _BATCHES for late, early in zip(all_batches, first, strict=True)))


def _load(home: Path) -> Times:
    (home / "schema.json").write_text(Schema.from_arrow(files.SCHEMA).to_json())
    command = [
        *(sys.executable, "-m", "spark_jobs.ingest", "--table", str(home / "out"), "--landing", str(home / "landing")),
        *("--source", "bench", "--format", "csv", "--schema", str(home / "schema.json"), "--pattern", _PATTERN),
        *("--quarantine", str(home / "quarantine"), "--files-per-batch", "1"),
    ]
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    after = os.times()
    computing = after.children_user + after.children_system - before.children_user - before.children_system
    return Times(time.perf_counter() - start, computing)


if __name__ == "__main__":
    sys.exit(main())
