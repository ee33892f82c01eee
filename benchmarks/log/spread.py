"""A snapshot in buckets on Spark beside the snapshot of one process, of the same table.

``python -m benchmarks.log.spread HOME TABLE ROUNDS`` prints a line of JSON. The session is started before; each round
replays the log anew and asks the same questions. The one process is a new one each time.

Memory is that of Python processes: the largest worker's while Spark is asked, the driver's, the one process'. The
JVM's, which holds Spark, is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.contestant import _session as session
from benchmarks.log import tables
from benchmarks.log.runs import names, peak_mb
from benchmarks.memory import Peak, largest_worker

_STEPS = {
    "replay": "replay the log (one process: open and count the files)",
    "prune": "files that may match id = x, first time",
    "again": "the same with another value",
    "totals": "sizes of all files, small ones apart",
}
_TARGET = 100 << 20


def on_spark(spark: Any, table: str) -> tuple[dict[str, float], list[Any]]:
    """Seconds of each step, and the answers."""
    from lakehouse_lib import DeltaTable, SparkEngine
    from lakehouse_lib.engine.distributed_snapshot import distribute
    from lakehouse_lib.expressions import parse

    first, other = _conditions(table)
    clock = _Clock()
    snapshot = DeltaTable(table).snapshot
    with distribute(snapshot, SparkEngine(spark)) as found:
        clock.lap("replay")
        chosen = clock.timed("prune", lambda: found.prune(parse(first, snapshot.schema)))
        clock.timed("again", lambda: found.prune(parse(other, snapshot.schema)))
        totals = clock.timed("totals", lambda: found.totals(_TARGET))
        return clock.laps, [found.file_count, names(chosen["path"].to_pylist()), totals.bytes, totals.small_files]


def in_process(table: str) -> tuple[dict[str, float], list[Any]]:
    """The same questions of a snapshot of this process."""
    import pyarrow.compute as pc

    from lakehouse_lib import DeltaTable

    first, other = _conditions(table)
    clock = _Clock()
    opened = DeltaTable(table)
    count = opened.snapshot.file_count
    clock.lap("replay")
    chosen = clock.timed("prune", lambda: opened.files(first))
    clock.timed("again", lambda: opened.files(other))

    def totals() -> tuple[int, int]:
        sizes = opened.snapshot.file_columns(["size"])["size"]
        return pc.sum(sizes).as_py(), pc.sum(pc.less(sizes, _TARGET / 2)).as_py()

    size, small = clock.timed("totals", totals)
    return clock.laps, [count, names(chosen["path"].to_pylist()), size, small]


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._start = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._start
        self._start = now

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        self._start = time.perf_counter()
        answer = work()
        self.lap(name)
        return answer


def _conditions(table: str) -> tuple[str, str]:
    shape = tables.Shape.of(Path(table).name)
    return tables.point(shape, 0.5), tables.point(shape, 0.3)


def measure(table: str, rounds: int) -> dict[str, Any]:
    """Alternate, and compare the answers."""
    spark = session()
    laps: dict[str, dict[str, list[float]]] = {name: {"spread": [], "process": []} for name in _STEPS}
    worker_peak = process_peak = 0.0
    for _ in range(rounds):
        with Peak(largest_worker) as workers:  # the one process is below this one, too
            spread, answers = on_spark(spark, table)
        alone = _in_a_new_process(table)
        if alone["answers"] != json.loads(json.dumps(answers)):
            raise SystemExit(f"the answers differ: {answers} on Spark, {alone['answers']} in one process")
        worker_peak = max(worker_peak, workers.megabytes)
        process_peak = max(process_peak, alone["peak_mb"])
        for name in _STEPS:
            laps[name]["spread"].append(spread[name])
            laps[name]["process"].append(alone["laps"][name])
    own = peak_mb()
    parallelism = spark.sparkContext.defaultParallelism
    spark.stop()
    return {
        "files": answers[0],
        "workers": parallelism,
        "steps": [{"title": title, **laps[name]} for name, title in _STEPS.items()],
        "peak_mb": {"worker": worker_peak, "driver": own, "process": process_peak},
    }


def _in_a_new_process(table: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.log.spread", table]
    told: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return told


def main(arguments: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Spark prints is no answer
    if len(arguments) == 1:
        laps, told = in_process(arguments[0])
        print(json.dumps({"laps": laps, "answers": told, "peak_mb": peak_mb()}), file=answers, flush=True)
        return
    print(json.dumps(measure(arguments[1], int(arguments[2]))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
