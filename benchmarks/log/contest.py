"""Runs contestants in processes of their own, in turns, and keeps what they measured."""

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

ROOT = Path(__file__).resolve().parent.parent.parent
PEER = ROOT / ".peers" / "delta-spark" / "bin" / "python"
_PATIENCE = 1800  # seconds


@dataclass(frozen=True)
class Question:
    """What is asked of a table: of ``module`` by default a method of ``Reader``, and conditions where it takes one.

    Attributes:
        module: is run as ``python -m MODULE CONTESTANT NAME TABLE [CONDITION ...]`` and answers as ``runs`` does.
    """

    name: str
    title: str
    conditions: tuple[str, ...] = ()
    module: str = "benchmarks.log.runs"


@dataclass
class Measured:
    """All runs of one contestant at one question. Seconds.

    Attributes:
        cold: from the interpreter's start to the answer, imports included, a run each.
        process: the same with the start of the process.
        cpu: processor seconds of the process until then, its start included.
        imports, opened: of ``cold`` when the library was imported, and when the table was open.
        warm: the question again in the same process, medians of each run; the whole question for those without a
            condition, the second look for those with one.
        others: another value of the condition in the same process.
        more: what else a question is about, by name.
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
    """Ask every contestant every question, ``rounds`` times, a round after the other; by question and contestant.

    Raises:
        SystemExit: contestants answer differently.
    """
    read_through(table)
    results: dict[str, dict[str, Measured]] = {q.name: {c: Measured() for c in contestants} for q in questions}
    for turn in range(rounds):
        for question in questions:
            # Who is first changes, so that neither always finds the caches of the other.
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
        if not PEER.exists():
            measured.missing = "not measured: .peers/delta-spark is not there (make interop makes it)"
            return
        script = str(Path(__file__).with_name("delta_spark.py"))
        command = [str(PEER), script, str(table), ";".join(question.conditions), str(ROOT / ".peers" / "ivy")]
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
        measured.missing = f"failed ({how}; {log.name} says why)"
        return
    run = json.loads(first)
    for line in rest.splitlines():
        run.update(json.loads(line))
    measured.add(run, seconds)


def read_through(table: Path) -> None:
    """The log into the page cache: what is measured is the work, not the disk."""
    for path in (table / "_delta_log").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass
