"""Runs of thousands of seeds, distributed over processes and counted."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.verb_simulation.runs import run

_CHUNK = 20


@dataclass
class Tally:
    """The results of seeds; ``violations`` are seeds with their violations."""

    seeds: int = 0
    versions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, str]] = field(default_factory=list)

    def merge(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.versions += other.versions
        self.outcomes += other.outcomes
        self.violations += other.violations


def tally(first: int, count: int) -> Tally:
    """Run some seeds in this process."""
    total = Tally(seeds=count)
    for seed in range(first, first + count):
        report = run(seed)
        total.versions += report.versions
        total.outcomes += report.outcomes
        if report.violation is not None:
            total.violations.append((seed, report.violation))
    return total


def campaign(first: int, count: int, processes: int) -> Iterator[Tally]:
    """Run seeds in several processes; yields the result of each piece."""
    starts = range(first, first + count, _CHUNK)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(tally, starts, [min(_CHUNK, first + count - start) for start in starts])
