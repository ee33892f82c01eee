"""Time commits beside delta-rs: small appends, concurrent writers, conflicts with many commits, tables of many files.

Contestants alternate, each in its own processes. This library is measured twice: without fsync, because delta-rs makes
none, and with fsync, its default. Results are stored by section; --write puts them into docs/commit-benchmarks.md.
The section `s3` runs on the S3 server of `make test-s3`, if that is built, or in the folder LAKEHOUSE_BENCH_S3
(s3://bucket/folder), with the environment variables AWS_... that both libraries read.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.commit import report
from benchmarks.commit.runs import COPIES
from benchmarks.commit.sections import SECTIONS, Options
from benchmarks.log import page
from tests.s3 import server

HOME = Path(__file__).resolve().parent.parent.parent / ".bench"


def main(arguments: Sequence[str] | None = None) -> int:
    usual = Options(HOME)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commit", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to measure")
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="runs; the median counts (%(default)s)")
    parser.add_argument("--appends", type=int, default=usual.appends, help="appends of a process (%(default)s)")
    parser.add_argument("--writers", type=int, nargs="+", default=usual.writers, help="concurrent writers")
    parser.add_argument("--commits", type=int, default=usual.commits, help="commits of all writers (%(default)s)")
    parser.add_argument("--others", type=int, default=usual.others, help="winning commits to check (%(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=usual.sizes, help="files of the tables of `sizes`")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of tables and results (default: .bench)")
    parser.add_argument("--write", action="store_true", help="put the stored results into docs/commit-benchmarks.md")
    parser.add_argument("--write-only", action="store_true", help="the same without a measurement")
    options = parser.parse_args(arguments)
    for name in ("rounds", "appends", "commits", "others"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; expected at least 1")
    for count in options.writers:
        if count < 1 or options.commits % count:
            parser.error(f"--commits is {options.commits}; expected a multiple of {count} writers")
    for count in options.sizes:
        if count < 100:
            parser.error(f"--sizes has {count} files; expected at least 100")
    options.home.mkdir(parents=True, exist_ok=True)
    results = options.home.resolve() / "commit-results"
    with _object_store(options.home.resolve()) as location:
        chosen = Options(
            options.home.resolve(),
            options.rounds,
            options.appends,
            tuple(options.writers),
            options.commits,
            options.others,
            tuple(options.sizes),
            location,
        )
        try:
            for name in [] if options.write_only else options.only:
                record = page.keep(results, name, options.rounds, lambda name=name: SECTIONS[name](chosen))
                print(f"\n## {name}: {page.taken(record)}\n\n{report.show(name, record['result'])}", flush=True)
        finally:
            shutil.rmtree(options.home / COPIES, ignore_errors=True)
    if options.write or options.write_only:
        page.fill_page(page.DOCS / "commit-benchmarks.md", results, report.show)
    return 0


@contextmanager
def _object_store(home: Path) -> Iterator[str]:
    """A folder in an object store for the section ``s3``; empty without one."""
    location = os.environ.get("LAKEHOUSE_BENCH_S3", "")
    if location or not server.PROGRAM.exists():
        yield location
        return
    folder = home / "s3"
    shutil.rmtree(folder, ignore_errors=True)
    with server.running(folder) as running:
        os.environ.update({name.upper(): value for name, value in running.options.items()})
        yield "s3://bucket/appends"


if __name__ == "__main__":
    sys.exit(main())
