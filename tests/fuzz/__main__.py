"""``make fuzz``: corrupt tables by the thousand, and check that no reader returns a wrong answer."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

from tests.fuzz import corpus, runner
from tests.fuzz.worker import choose, corrupt

_FOLDER = Path(__file__).parents[2] / ".fuzz"
_STEP = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="number of inputs; default: 100,000")
    parser.add_argument("--seed", type=int, default=None, help="seed of the run; default: a new one")
    parser.add_argument("--first", type=int, default=0, help="number of the first input; default: 0")
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    tables = corpus.build(_FOLDER / "corpus")
    print(
        f"seed {seed}: {options.inputs:,} inputs from {len(tables)} tables, {options.processes} processes", flush=True
    )

    def report(finding: runner.Finding) -> None:
        print(finding, flush=True)
        case = choose(seed, finding.number, tables)
        if case.table is not None and case.changed:
            print(f"    kept in {corrupt(case, _FOLDER / 'found' / f'{seed}-{finding.number}')}", flush=True)

    total = runner.Tally()
    begun = time.monotonic()
    end = options.first + options.inputs
    for first in range(options.first, end, _STEP):
        numbers = range(first, min(first + _STEP, end))
        tally = runner.run(seed, numbers, tables, processes=options.processes, report=report)
        total.kinds += tally.kinds
        total.findings += tally.findings
        total.slowest = max(total.slowest, tally.slowest)
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(total.kinds.items()))
        print(f"{numbers.stop:>9,}  {time.monotonic() - begun:6.0f} s  {kinds}", flush=True)
    print(f"{len(total.findings)} findings; the slowest answer of ours took {total.slowest:.2f} s")
    if total.findings:
        print(f"carry on or look again: make fuzz SEED={seed} FIRST=NUMBER INPUTS=1")
    return 1 if total.findings else 0


if __name__ == "__main__":
    sys.exit(main())
