"""Measure how long delta-spark takes to plan a query with a condition.

Run it as ``.peers/delta-spark/bin/python -m benchmarks.log.delta_spark TABLE CONDITION;...``. It runs in the Python
environment of delta-spark. A measurement ends when the files of the query are known. It does not
include the start of the Spark session. Prints a line of JSON like ``runs.py``:
``{"seconds", "warm": [...], "others": [...], "count", "digest", "peak_mb"}``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import delta_spark

_REPEATS = 3


def main(table: str, conditions: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps Spark's output out of the answer
    session = delta_spark.session("6g")

    def plan(condition: str) -> list[str]:
        frame = session.read.format("delta").load(table).where(condition)
        query = frame._jdf.queryExecution()
        query.executedPlan()
        files: list[str] = list(frame.inputFiles())
        return files

    first, matching_files = _timed(plan, conditions[0])
    warm = [_timed(plan, conditions[0])[0] for _ in range(_REPEATS)]
    others = [_timed(plan, condition)[0] for condition in conditions[1:]]
    names = sorted(file.rsplit("/", 1)[-1] for file in matching_files)
    answer = {
        "seconds": first,
        "warm": warm,
        "others": others,
        "count": len(matching_files),
        "digest": hashlib.sha256("\n".join(names).encode()).hexdigest()[:16],
        "peak_mb": _jvm_peak_mb(),
    }
    print(json.dumps(answer), file=answers, flush=True)
    session.stop()


def _timed(work: Any, argument: str) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = work(argument)
    return time.perf_counter() - start, answer


def _jvm_peak_mb() -> float:
    """The peak memory of this process's JVM, in megabytes."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if re.search(rf"^PPid:\s+{os.getpid()}$", text, re.M) and (peak := re.search(r"VmHWM:\s+(\d+)", text)):
            peaks.append(int(peak[1]))
    return max(peaks) * 1024 / 1e6


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(";"))
