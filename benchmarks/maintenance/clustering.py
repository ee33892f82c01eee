"""Z-order a table, then add 5% new rows in each of ten rounds, and Z-order it after each round.

Seconds and bytes of a round are shares of those of the first, full Z-order in the same process. At the end, the share
of files that a point query skips is compared with a full Z-order of the same rows, and the rows are checked.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from benchmarks import checks, data
from benchmarks.log.report import table
from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine

COLUMNS = ("customer", "item")
_NEW_SHARE = 20  # a round adds one twentieth of the first rows
_LOADS = 10  # in so many commits


class Round(NamedTuple):
    """A Z-order after new rows.

    Attributes:
        seconds, size: of the Z-order and of the files that it wrote, as shares of the first Z-order.
        files: the number of files that it rewrote, and that the table has after it.
        skipped: the share of files that a point query skips, for each column.
    """

    seconds: float
    size: float
    files: tuple[int, int]
    skipped: list[float]


def run(path: Path, engine: Engine, *, rows: int, files: int, rounds: int) -> tuple[list[Round], list[float]]:
    """The rounds, and the share of files that a point query skips after a full Z-order at the end."""
    total = rows + rounds * (rows // _NEW_SHARE)
    _append(path, 0, rows, total, loads=200 if rows >= 1_000_000 else 20)
    target = math.ceil(sum(file.stat().st_size for file in map(Path, checks.files(path))) / files)
    first = _z_order(path, engine, target)
    measured = []
    count = rows
    for _ in range(rounds):
        _append(path, count, rows // _NEW_SHARE, total, loads=_LOADS)
        count += rows // _NEW_SHARE
        seconds, metrics = _z_order(path, engine, target)
        share = metrics["filesAdded"]["totalSize"] / first[1]["filesAdded"]["totalSize"]
        file_counts = (metrics["numFilesRemoved"], len(checks.files(path)))
        measured.append(Round(seconds / first[0], share, file_counts, _skipped(path)))
    before = checks.content(path)
    if before.rows != count:
        raise AssertionError(f"the table has {before.rows} rows; expected {count}")
    _z_order(path, engine, target, full=True)
    if checks.content(path) != before:
        raise AssertionError("a full Z-order has changed the rows")
    return measured, _skipped(path)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance.clustering", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the first Z-order (%(default)s)")
    parser.add_argument("--files", type=int, default=16, help="files of the first Z-order (%(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of 5%% new rows (%(default)s)")
    parser.add_argument("--engine", choices=("arrow", "spark"), default="arrow")
    parser.add_argument("--home", type=Path, help="folder of the table (default: a temporary folder)")
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="clustering-", dir=options.home))
    try:
        measured, best = run(
            home / "orders",
            _engine(options.engine),
            rows=options.rows,
            files=options.files,
            rounds=options.rounds,
        )
    finally:
        shutil.rmtree(home)
    head = ["round", "seconds", "bytes", "files rewritten", "files", *(f"skipped by {name}" for name in COLUMNS)]
    lines = [
        [
            str(number),
            f"{entry.seconds:.0%}",
            f"{entry.size:.0%}",
            *map(str, entry.files),
            *(f"{share:.1%}" for share in entry.skipped),
        ]
        for number, entry in enumerate(measured, 1)
    ]
    lines.append(["full", "", "", "", "", *(f"{share:.1%}" for share in best)])
    print(f"{options.rows:,} rows, {options.rounds} rounds of 5% new rows, engine {options.engine}. Seconds and bytes")
    print(f"are shares of those of the first Z-order.\n\n{table(head, lines)}")
    return 0


def _append(path: Path, start: int, count: int, total: int, *, loads: int) -> None:
    step = math.ceil(count / loads)
    for low in range(start, start + count, step):
        rows: pa.Table = data.orders(low, min(step, start + count - low), total)
        write_deltalake(path, rows, mode="append")


def _z_order(path: Path, engine: Engine, target: int, *, full: bool = False) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    metrics = DeltaTable(path, engine=engine).optimize.z_order(COLUMNS, target_size=target, full=full)
    return time.perf_counter() - started, metrics


def _skipped(path: Path) -> list[float]:
    return [checks.skipped(path, column) for column in COLUMNS]


def _engine(name: str) -> Engine:
    if name == "arrow":
        return ArrowEngine()
    from benchmarks import spark_session
    from lakehouse_lib.engine.spark.engine import SparkEngine

    return SparkEngine(spark_session.started(spark_session.builder("2g")))


if __name__ == "__main__":
    sys.exit(main())
