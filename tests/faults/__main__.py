"""``make test-faults``: storms of writers that are killed, until there are enough commits and kills."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.storm import storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--commits", type=int, default=5_000, help="the least number of commits (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=1_000, help="the least number of kills (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=16, help="concurrent writers (default: %(default)s)")
    parser.add_argument("--each", type=int, default=500, help="commits in one table (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the operations; default: a new one")
    options = parser.parse_args()
    if min(options.commits, options.kills, options.processes, options.each) < 1:
        parser.error("give 1 or more of each")
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    print(f"seed {seed}: {options.commits:,} commits and {options.kills:,} kills, {options.processes} processes")
    tables = -(-options.commits // options.each)
    commits = kills = unanswered = violations = 0
    for number in range(tables):
        folder = Path(tempfile.mkdtemp(prefix="lakehouse-storm-"))
        result = storm(
            folder,
            commits=-(-options.commits // tables),
            kills=-(-options.kills // tables),
            processes=options.processes,
            seed=seed + number,
            versions=10,
        )
        commits += result.verdict.versions - 1
        kills += result.killed + result.died
        unanswered += result.verdict.unanswered
        violations += len(result.verdict.violations)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(result.verdict.kinds.items()))
        print(
            f"table {number + 1}: {result.verdict.versions - 1} commits ({kinds}), {result.verdict.unanswered} of them "
            f"never answered, {result.killed} killed, {result.died} dead at a step, {result.seconds:.0f} s",
            flush=True,
        )
        for violation in result.verdict.violations:
            print(f"  VIOLATION: {violation}")
        if result.verdict.violations:
            print(f"  kept in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    print(f"{commits:,} commits, {kills:,} kills, {unanswered} commits never answered, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
