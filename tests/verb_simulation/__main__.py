"""``make simulate-verbs``: run concurrent verbs of the library with data files, for thousands of seeds."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console
from rich.progress import Progress

from tests.simulation.campaign import history_lines
from tests.simulation.hunting import hunt_all
from tests.verb_simulation.campaign import Tally, campaign
from tests.verb_simulation.mutants import MUTANTS, violation_of
from tests.verb_simulation.runs import plan_of, run

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verb_simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="number of runs; default: 2,000")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default: 0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each processor")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print the calls of one run")
    parser.add_argument("--mutants", action="store_true", help="instead of seeds: find the mutants")
    options = parser.parse_args()
    if options.replay is not None:
        return _replay(options.replay)
    if options.mutants:
        return 1 if hunt_all(MUTANTS, violation_of, options.first, console) else 0
    return _simulate(options.first, options.seeds, options.processes)


def _simulate(first: int, count: int, processes: int) -> int:
    begun = time.monotonic()
    total = Tally()
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=count)
        for piece in campaign(first, count, processes):
            total.merge(piece)
            for seed, violation in piece.violations:
                progress.console.print(f"seed {seed}: {violation}", markup=False)
            progress.update(task, completed=total.seeds)
    elapsed = time.monotonic() - begun
    console.print(
        f"{count:,} seeds from {first} in {elapsed:,.0f} s: {count / elapsed:.1f} a second on {processes} processes; "
        f"{total.versions:,} versions"
    )
    for outcome, number in total.outcomes.most_common():
        console.print(f"{number:>12,}  {outcome}", markup=False)
    console.print(f"{len(total.violations):,} violations")
    if total.violations:
        console.print("replay: python -m tests.verb_simulation --replay SEED")
    return 1 if total.violations else 0


def _replay(seed: int) -> int:
    report = run(seed)
    console.print(str(plan_of(seed)), markup=False)
    for line in history_lines(report.history):
        console.print(line, markup=False)
    console.print(report.violation or "no violation", markup=False)
    return 1 if report.violation else 0


if __name__ == "__main__":
    sys.exit(main())
