"""The process of a contestant, and what it measures of a verb."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import checks, delta_spark
from benchmarks.memory import Peak, family, high_water
from benchmarks.opened_files import OpenedFiles

ROOT = Path(__file__).resolve().parent.parent
#: The contestants that have one process for all their runs, which is a Spark session.
SESSIONS = ("spark", "delta-spark")


class Run(NamedTuple):
    """A run of a verb.

    Attributes:
        peak_mb: the resident memory of the process and its descendants.
        opened: the number of the table's data files that it opened.
        is_killed: it exceeded its memory limit after ``seconds``.
    """

    seconds: float
    peak_mb: float
    opened: int
    is_killed: bool = False


class ContestantProcess:
    """A process of ``benchmarks.contestant``.

    Args:
        log: the file for its standard error.
        limit: kills the process if it needs more bytes of memory.
    """

    def __init__(self, name: str, log: Path, *, limit: float = math.inf) -> None:
        interpreter = delta_spark.PYTHON if name == "delta-spark" else sys.executable
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(interpreter), "-m", "benchmarks.contestant", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
            )
        self._name, self._log, self._limit = name, log, limit
        if self._answer() is None:
            raise self._failure()

    def run(self, verb: str, table: Path, arguments: dict[str, Any]) -> Run:
        assert self._process.stdin is not None
        request = json.dumps({"verb": verb, "table": str(table), "arguments": arguments})
        names = [Path(path).name for path in checks.files(table)]
        process = self._process.pid
        with (
            OpenedFiles(table, names) as opened,
            Peak(lambda: family(process), limit=self._limit, exceed=self._process.kill) as memory,
        ):
            start = time.perf_counter()
            print(request, file=self._process.stdin, flush=True)
            seconds = self._answer()
            elapsed = time.perf_counter() - start
        # A session's high-water mark may be of an earlier run.
        peak = memory.megabytes if self._name in SESSIONS else max(memory.megabytes, high_water(process))
        if seconds is None and not memory.is_exceeded:
            raise self._failure()
        return Run(elapsed if seconds is None else seconds, peak, len(opened.names), seconds is None)

    def close(self) -> None:
        assert self._process.stdin is not None
        with self._process:
            self._process.stdin.close()

    def _answer(self) -> Any:
        """The next answer; None if the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def _failure(self) -> SystemExit:
        return SystemExit(f"{self._name} failed; {self._log} has the reason")
