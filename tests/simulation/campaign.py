"""Runs of millions of seeds: distributed over processes, counted, and with short descriptions of violations."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Container, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tests.simulation.creation import CreatedTable, Creation, create_initial_table
from tests.simulation.runs import Plan, Report, plan_of, run, without
from tests.simulation.simulation import Step

_CHUNK = 50
#: The number of tables that a process keeps, of about 250 kB each; without it, 2.6 GB after some hundred thousand
#: runs.
_TABLES = 10_000


@dataclass
class Tally:
    """The results of seeds.

    Attributes:
        shapes: the shapes of the runs; equal shapes differ only by the order of independent calls.
        violations: seed and violation.
    """

    seeds: int = 0
    calls: int = 0
    versions: int = 0
    shapes: set[int] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, str]] = field(default_factory=list)

    def add(self, seed: int, report: Report) -> None:
        self.seeds += 1
        self.calls += report.calls
        self.versions += report.versions
        self.shapes.add(report.shape)
        self.outcomes += report.outcomes
        if report.violation is not None:
            self.violations.append((seed, report.violation))

    def merge(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.calls += other.calls
        self.versions += other.versions
        self.shapes |= other.shapes
        self.outcomes += other.outcomes
        self.violations += other.violations


def tally(first: int, count: int, made: Callable[[Creation], CreatedTable] = create_initial_table) -> Tally:
    """Run some seeds in this process.

    Args:
        made: as in ``run``.
    """
    total = Tally()
    for seed in range(first, first + count):
        total.add(seed, run(seed, made))
    return total


def _piece(first: int, count: int) -> Tally:
    """``tally`` in a worker process, which creates no table twice."""
    return tally(first, count, _create_once)


_create_once = lru_cache(_TABLES)(create_initial_table)


def campaign(first: int, count: int, processes: int, done: Container[int] = frozenset()) -> Iterator[tuple[int, Tally]]:
    """Run seeds in several processes; yields the first seed and the result of each piece when it is finished.

    Args:
        done: first seeds of pieces that are finished already.
    """
    context = multiprocessing.get_context("spawn")  # forked processes would share Arrow's threads
    starts = (start for start in range(first, first + count, _CHUNK) if start not in done)
    with ProcessPoolExecutor(processes, context) as pool:
        pending: dict[Future[Tally], int] = {}
        for start in starts:
            pending[pool.submit(_piece, start, min(_CHUNK, first + count - start))] = start
            if len(pending) >= 4 * processes:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(future), future.result()
        for future in as_completed(pending):
            yield pending[future], future.result()


def shorten(seed: int, tries: int = 8) -> tuple[Plan, Report]:
    """The simplest run like the seed's that still has a violation.

    Leaves out one part after the other, and tries so many orders each time.
    """
    plan = plan_of(seed)
    best = run(plan)
    if best.violation is None:
        return plan, best
    simpler = True
    while simpler:
        simpler = False
        for smaller in without(plan):
            failure = _any_violation(smaller, tries)
            if failure is not None:
                plan, best = failure
                simpler = True
                break
    for number in range(tries):
        again = replace(plan, seed=f"{seed} shorter {number}")
        report = run(again)
        if report.violation is not None and report.calls < best.calls:
            plan, best = again, report
    return plan, best


def _any_violation(plan: Plan, tries: int) -> tuple[Plan, Report] | None:
    """The plan with a violation in another order, if the first order has none."""
    for number in range(tries):
        again = plan if number == 0 else replace(plan, seed=f"{plan.seed} {number}")
        report = run(again)
        if report.violation is not None:
            return again, report
    return None


def history_lines(history: list[Step]) -> Iterator[str]:
    """The history with one line for each call."""
    for number, (call, fault_plan) in enumerate(history):
        what = (
            []
            if fault_plan.effect == 1
            else ["not done" if fault_plan.effect == 0 else f"done {fault_plan.effect} times"]
        )
        what += ["done later"] if fault_plan.late else []
        what += {"result": [], "error": ["answered with an error"], "crash": ["the caller crashes"]}[fault_plan.answer]
        what += [f"{fault_plan.stale:.0f} ms behind"] if fault_plan.stale else []
        what += [f"its clock {fault_plan.clock / 60_000:.0f} minutes behind"] if fault_plan.clock is not None else []
        path = call.path.replace("0" * 16, "…") or "the whole folder"
        yield f"{number:>5}  {call.actor:<12}  {call.verb:<6}  {path}{'   ' + ', '.join(what) if what else ''}"
