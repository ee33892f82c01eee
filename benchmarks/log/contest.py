"""Run contestants alternately, each in its own process, and collect their measurements."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import delta_spark

ROOT = Path(__file__).resolve().parent.parent.parent
_PATIENCE = 1800  # seconds


@dataclass(frozen=True)
class Question:
    """A question about a table. By default, the method ``name`` of ``Reader`` answers it.

    Attributes:
        module: the module that answers, run as ``python -m MODULE CONTESTANT NAME TABLE [CONDITION ...]``, with
            the output of ``runs``.
    """

    name: str
    title: str
    conditions: tuple[str, ...] = ()
    module: str = "benchmarks.log.runs"


@dataclass
class Measured:
    """The measurements of a contestant for a question; times are in seconds, a value for each run.

    Attributes:
        cold: from the interpreter's start to the answer, imports included.
        process: ``cold`` and the start of the process.
        cpu: processor seconds of the process up to the answer, its start included.
        imports, opened: the times, within ``cold``, when the library was imported and the table was open.
        warm: the median of repetitions in the same process: of the whole question without a condition, of the second
            plan with one.
        others: a plan with another value of the condition, in the same process.
        more: other measurements, by name.
        count, digest: the answer.
    """

    cold: list[float] = field(default_factory=list)
    process: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    imports: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    more: dict[str, list[float]] = field(default_factory=dict)
    count: int = -1
    digest: str = ""
    missing: str = ""

    def add(self, run: Mapping[str, Any], process: float) -> None:
        self.cold.append(run["seconds"])
        self.process.append(process)
        self.peak_mb.append(run["peak_mb"])
        self.count, self.digest = run["count"], run["digest"]
        for name in ("cpu", "imports", "opened"):
            if name in run:
                getattr(self, name).append(run[name])
        for name in ("warm", "others"):
            if run.get(name):
                getattr(self, name).append(statistics.median(run[name]))
        for name, value in run.get("more", {}).items():
            self.more.setdefault(name, []).append(value)


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def contest(
    table: Path, questions: Sequence[Question], contestants: Sequence[str], rounds: int
) -> dict[str, dict[str, Measured]]:
    """Ask every contestant every question, ``rounds`` times; returns the measurements by question and contestant.

    Raises:
        SystemExit: the contestants' answers differ.
    """
    read_through(table)
    results: dict[str, dict[str, Measured]] = {q.name: {c: Measured() for c in contestants} for q in questions}
    for turn in range(rounds):
        for question in questions:
            # The order alternates, so that no contestant always profits from the caches of the other.
            order = contestants if turn % 2 == 0 else contestants[::-1]
            for name in order:
                _ask(results[question.name][name], name, question, table)
    for question in questions:
        answers = {
            name: (measured.count, measured.digest)
            for name, measured in results[question.name].items()
            if measured.cold
        }
        if len(set(answers.values())) > 1:
            raise SystemExit(f"{question.title} of {table}: the answers differ: {answers}")
    return results


def _ask(measured: Measured, name: str, question: Question, table: Path) -> None:
    if measured.missing:
        return
    if name == "delta-spark":
        if not delta_spark.PYTHON.exists():
            measured.missing = "not measured: .peers/delta-spark is missing (make interop makes it)"
            return
        module = "benchmarks.log.delta_spark"
        command = [str(delta_spark.PYTHON), "-m", module, str(table), ";".join(question.conditions)]
    else:
        command = [sys.executable, "-m", question.module, name, question.name, str(table), *question.conditions]
    log = table.parent / f"{name}.log"
    start = time.perf_counter()
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
        patience = threading.Timer(_PATIENCE, process.kill)
        patience.start()
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            seconds = time.perf_counter() - start
            rest, _ = process.communicate()
        finally:
            patience.cancel()
    if process.returncode != 0 or not first:
        how = f"exit code {process.returncode}" if process.returncode >= 0 else f"signal {-process.returncode}"
        measured.missing = f"failed ({how}; {log.name} has the reason)"
        return
    run = json.loads(first)
    for line in rest.splitlines():
        run.update(json.loads(line))
    measured.add(run, seconds)


def read_through(table: Path) -> None:
    """Read the log into the page cache, so that the disk is not measured."""
    for path in (table / "_delta_log").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass
