"""Passes inputs to worker processes and collects verdicts; a worker that hangs or dies costs one input."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.judges import Verdict
from tests.fuzz.worker import work

#: The most seconds for an input. Most inputs take hundredths of a second, but the machine may be busy.
TIME_LIMIT = 20.0
#: The run checks twice a second. After so many seconds without a check, the run itself was stopped, and no worker hung.
_STOPPED = 10.0
GOOD = ("answer", "refusal", "no opinion")
#: Verdicts that count only if an input gives them twice: a machine without time or memory stops a worker, too.
_DOUBTED = ("hung", "crashed")
_RENEW = 5_000  # inputs after which a worker is replaced, because libraries leak memory


@dataclass(frozen=True)
class Finding:
    number: int
    said: str
    verdict: Verdict

    def __str__(self) -> str:
        text = f"#{self.number} {self.verdict.kind}: {self.verdict.detail}\n    {self.said}"
        return text.encode("utf-8", "backslashreplace").decode()  # halves of surrogate pairs cannot be printed


@dataclass
class Tally:
    """``kinds`` counts verdicts; ``findings`` are wrong verdicts; ``slowest`` in seconds."""

    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest: float = 0.0
    seconds: float = 0.0


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    folder: Path
    number: int = -1
    said: str = ""
    phase: str = ""
    begun: float = 0.0
    done: int = 0


def run(
    seed: int,
    numbers: Iterable[int],
    corpus: list[Path],
    *,
    processes: int = 1,
    report: Callable[[Finding], None] = lambda _: None,
    time_limit: float = TIME_LIMIT,
) -> Tally:
    """Read the tables of these numbers and collect the verdicts.

    Args:
        report: called with each finding at once.
        time_limit: the most seconds for an input.
    """
    tally, waiting = Tally(), iter(numbers)
    repeated: set[int] = set()
    begun = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    workers = [_start(seed, corpus, scratch) for _ in range(processes)]
    try:
        workers = [worker for worker in workers if _give(worker, waiting)]
        looked = time.monotonic()
        while workers:
            ready = set(wait([worker.connection for worker in workers], timeout=0.5))
            last, looked = looked, time.monotonic()
            if looked - last > _STOPPED:
                for worker in workers:
                    worker.begun += looked - last
            for index, worker in enumerate(workers):
                verdict = _news(worker) if worker.connection in ready else None
                if verdict is None and worker.phase and time.monotonic() - worker.begun > time_limit:
                    verdict = Verdict("hung" if worker.phase.startswith("us") else "no opinion", worker.phase)
                if verdict is None:
                    continue
                if verdict.kind in _DOUBTED and worker.number not in repeated:
                    repeated.add(worker.number)
                    _stop(worker)
                    workers[index] = _start(seed, corpus, scratch)
                    _give(workers[index], iter([worker.number]))
                    continue
                _count(tally, worker, verdict, report)
                if verdict.kind in ("hung", "crashed", "no opinion") or worker.done >= _RENEW:
                    _stop(worker)
                    worker = workers[index] = _start(seed, corpus, scratch)
                if not _give(worker, waiting):
                    _stop(worker)
                    workers[index].number = -1
            workers = [worker for worker in workers if worker.number >= 0]
    finally:
        for worker in workers:
            _stop(worker)
        shutil.rmtree(scratch, ignore_errors=True)
    tally.seconds = time.monotonic() - begun
    return tally


def _start(seed: int, corpus: list[Path], scratch: Path) -> _Worker:
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    folder = Path(tempfile.mkdtemp(dir=scratch))
    process = context.Process(target=work, args=(child_end, seed, corpus, folder), daemon=True)
    process.start()
    child_end.close()
    return _Worker(process, parent_end, folder)


def _stop(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.connection.close()
    shutil.rmtree(worker.folder, ignore_errors=True)


def _give(worker: _Worker, numbers: Iterable[int]) -> bool:
    number = next(iter(numbers), None)
    if number is None:
        return False
    # The time starts with the first message, because a new process needs seconds for its imports.
    worker.number, worker.said, worker.phase = number, "", ""
    worker.connection.send(number)
    return True


def _news(worker: _Worker) -> Verdict | None:
    try:
        what, content = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        in_our_reader = not worker.phase.startswith("others")
        return Verdict(
            "crashed" if in_our_reader else "no opinion", f"exit code {worker.process.exitcode} in {worker.phase}"
        )
    if what == "done":
        assert isinstance(content, Verdict)
        return content
    if what == "said":
        worker.said = content
    else:
        worker.phase = content
    worker.begun = time.monotonic() if what == "said" or content == "others" else worker.begun
    return None


def _count(tally: Tally, worker: _Worker, verdict: Verdict, report: Callable[[Finding], None]) -> None:
    worker.done += 1
    tally.kinds[verdict.kind] += 1
    tally.slowest = max(tally.slowest, time.monotonic() - worker.begun) if worker.phase == "us" else tally.slowest
    if verdict.kind not in GOOD:
        finding = Finding(worker.number, worker.said, verdict)
        tally.findings.append(finding)
        report(finding)
