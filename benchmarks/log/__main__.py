"""Measure the time to open, list, prune, refresh and scan tables of many files; print a table for each section.

The contestants are this library, delta-rs and, in the section ``prune``, also delta-spark. They run in turns. Each one
answers in a new process (cold), and then again in the same process (warm). All answers are compared. Results are stored
by section, so that --only can repeat a section. --write puts them into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.log import page, report
from benchmarks.log.sections import SECTIONS, SIZES, Options

HOME = Path(__file__).resolve().parent.parent.parent / ".bench"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to measure")
    parser.add_argument(
        "--rounds", type=int, default=5, help="runs of each contestant; the median counts (%(default)s)"
    )
    parser.add_argument(
        "--files", type=int, default=1_000_000, help="number of files in each opened table (%(default)s)"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="numbers of files in the tables of the section `growth`"
    )
    parser.add_argument(
        "--scan-files", type=int, default=10_000, help="number of files in the scanned table (%(default)s)"
    )
    parser.add_argument(
        "--commit-files", type=int, default=100_000, help="number of files in each commit of the section `commits`"
    )
    parser.add_argument("--home", type=Path, default=HOME, help="folder of tables and results (default: .bench)")
    parser.add_argument("--write", action="store_true", help="put the stored results into docs/benchmarks.md")
    parser.add_argument(
        "--write-only", action="store_true", help="put the stored results into docs/benchmarks.md without measuring"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected at least 1")
    for count in (options.files, options.scan_files, options.commit_files, *options.sizes):
        if count < 100:
            parser.error(f"a table has {count} files; expected at least 100")
    results = options.home / "log-results"
    chosen = Options(
        options.home.resolve(),
        options.files,
        options.rounds,
        tuple(options.sizes),
        options.scan_files,
        options.commit_files,
    )
    for name in [] if options.write_only else options.only:
        record = page.keep(results, name, options.rounds, lambda name=name: SECTIONS[name](chosen))
        print(f"\n## {name}: {page.taken(record)}\n\n{report.show(name, record['result'])}", flush=True)
    if options.write or options.write_only:
        page.write(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
