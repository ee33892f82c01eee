"""``make simulate``: run the commit protocol with thousands of seeds and check each run."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.simulation.campaign import Tally, campaign, history_lines, shorten
from tests.simulation.hunting import hunt_all
from tests.simulation.mutants import MUTANTS, violation_of
from tests.simulation.record import Record, RecordError, code_of_runs, open_record
from tests.simulation.runs import plan_of, run
from tests.simulation.scenarios import PAIRS, TRIPLES, explored

_SHORTENED = 3
_LINE_EVERY_SECONDS = 60
_SAVED_EVERY_SECONDS = 20

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="number of runs; default: 10,000")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default: 0")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each processor")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the results in a file, or continue from it")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print the calls of one run")
    parser.add_argument("--orders", action="store_true", help="instead of seeds: all orders of pairs and triples")
    parser.add_argument("--limit", type=int, default=1_000, help="the most orders of one scenario; default: 1,000")
    parser.add_argument("--mutants", action="store_true", help="instead of seeds: find the mutants")
    options = parser.parse_args()
    if options.limit < 1:
        parser.error(f"argument --limit: is {options.limit}; expected at least 1")
    if options.replay is not None:
        return _replay(options.replay)
    if options.mutants:
        return 1 if hunt_all(MUTANTS, violation_of, options.first, console) else 0
    if options.orders:
        return _explore(options.limit, options.processes)
    return _simulate(options.first, options.seeds, options.processes, options.record)


def _simulate(first: int, count: int, processes: int, file: Path | None) -> int:
    try:
        with open_record(file, first, count) as record:
            return _sit(record, processes)
    except RecordError as error:
        console.print(str(error), markup=False)
        return 2
    except KeyboardInterrupt:
        advice = "run the same command to continue" if file is not None else "RECORD=file keeps the results"
        console.print(f"interrupted; {advice}", markup=False)
        return 130


def _sit(record: Record, processes: int) -> int:
    record.save(0)
    first, count = record.first, record.count
    total, begun = record.total, time.monotonic()
    if record.sittings > 1:
        console.print(f"{total.seeds:,} seeds are finished already, with {len(total.violations):,} violations")
    saved = begun
    with _progress(count, total.seeds) as advance:
        for start, piece in campaign(first, count, processes, record.done):
            record.add(start, piece)
            for seed, violation in piece.violations:
                console.print(f"seed {seed}: {violation}", markup=False)
            if time.monotonic() - saved > _SAVED_EVERY_SECONDS:
                saved = time.monotonic()
                record.save(saved - begun)
            advance(total)
    record.save(time.monotonic() - begun)
    elapsed = record.seconds + time.monotonic() - begun
    console.print(
        f"{total.seeds:,} seeds from {first} in {elapsed:,.0f} s"
        f"{f' of {record.sittings} sittings' if record.sittings > 1 else ''}: {total.seeds / elapsed:.0f} a second on "
        f"{processes} processes; {total.calls:,} calls, {total.versions:,} versions"
    )
    if record.path is not None:
        console.print(f"the code of these runs is {code_of_runs()}")
    console.print(f"{len(total.shapes):,} distinct interleavings (up to the order of independent calls)")
    for outcome, number in total.outcomes.most_common():
        console.print(f"{number:>12,}  {outcome}", markup=False)
    console.print(f"{len(total.violations):,} violations")
    for seed, _ in sorted(total.violations)[:_SHORTENED]:
        plan, report = shorten(seed)
        console.print(f"\nseed {seed}, in its shortest form: {report.violation}\n{plan}", markup=False)
        for line in history_lines(report.history):
            console.print(line, markup=False)
    if total.violations:
        console.print("replay: python -m tests.simulation --replay SEED")
    return 1 if total.violations else 0


def _replay(seed: int) -> int:
    report = run(seed)
    console.print(str(plan_of(seed)), markup=False)
    for line in history_lines(report.history):
        console.print(line, markup=False)
    console.print(f"digest {report.digest}")
    console.print(report.violation or "no violation", markup=False)
    return 1 if report.violation else 0


def _explore(limit: int, processes: int) -> int:
    broken = orders = cut = 0
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        numbers = range(len(PAIRS) + len(TRIPLES))
        for result in pool.map(explored, numbers, [limit] * len(numbers)):
            without_fault = result.without_fault
            is_settled = without_fault.is_complete or without_fault.violation is not None
            broken += len(result.violations)
            orders += without_fault.orders + result.faulty_orders
            cut += result.cut > 0 or not without_fault.is_complete
            console.print(
                f"{result.name}: {without_fault.orders:,}{'' if without_fault.is_complete else '+'} orders of up to "
                f"{max(without_fault.calls.values())} calls each ({without_fault.abandoned:,} given up as repeated), "
                f"{result.faulty_orders:,} with one of {result.faults:,} faults"
                f"{f'; cut after {limit // 20:,} orders each: {result.cut:,} of these' if result.cut else ''}"
                f"{'' if is_settled else f'; cut after {limit:,} without a fault'}",
                markup=False,
            )
            for outcomes, number in without_fault.outcomes.most_common():
                console.print(f"{number:>12,}  {', '.join(outcomes)}", markup=False)
            for fault, what, history in result.violations[:_SHORTENED]:
                console.print(f"with {fault}: {what}", markup=False)
                for line in history_lines(history):
                    console.print(line, markup=False)
    console.print(f"{orders:,} distinct orders, {broken} violations; {cut} of {len(numbers)} scenarios were cut")
    return 1 if broken else 0


@contextmanager
def _progress(count: int, before: int = 0) -> Iterator[object]:
    begun = last = time.monotonic()

    def line(total: Tally) -> None:
        nonlocal last
        if time.monotonic() - last > _LINE_EVERY_SECONDS:
            last = time.monotonic()
            rate = (total.seeds - before) / (last - begun)
            console.print(f"{total.seeds:>12,}  {rate:.0f} a second, {len(total.violations)} violations")

    if not console.is_terminal:
        yield line
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=count, completed=before)

        def bar(total: Tally) -> None:
            progress.update(task, completed=total.seeds, description=f"{len(total.violations)} violations")

        yield bar


if __name__ == "__main__":
    sys.exit(main())
