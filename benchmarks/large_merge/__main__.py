"""Merge 100 MB into a table of 20 GB, with a limit of the memory, and check the count and a checksum of all rows.

The memory is that of the process and its descendants. A process that exceeds its limit is killed. Needs free
space of more than twice the table. Results are stored by table; --write puts them into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import checks, data
from benchmarks.large_merge import tables
from benchmarks.log import page
from benchmarks.log.report import seconds, table
from benchmarks.process import ROOT, ContestantProcess

HOME = ROOT / ".bench"
TABLES = ("vectors", "copy")
CONTESTANTS = ("arrow", "delta-rs")
_MIB = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_merge", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20, help="size of the table's files (%(default)s)")
    parser.add_argument("--megabytes", type=float, default=100, help="size of the source's file (%(default)s)")
    parser.add_argument("--memory", type=int, default=2048, help="limit of this library in MiB (%(default)s)")
    parser.add_argument("--peer-memory", type=int, default=16384, help="limit of delta-rs in MiB (%(default)s)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, help="with or without deletion vectors")
    parser.add_argument(
        "--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS, help="arrow is this library"
    )
    parser.add_argument("--home", type=Path, default=HOME, help="folder of tables and results (default: .bench)")
    parser.add_argument("--write", action="store_true", help="put the stored results into docs/benchmarks.md")
    options = parser.parse_args(arguments)
    home = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    _check_space(home, options.gigabytes)
    limits = {"arrow": options.memory * _MIB, "delta-rs": options.peer_memory * _MIB}
    is_within = True
    results = home / "large-merge-results"
    for kind in options.tables:
        start = time.perf_counter()
        target = tables.make(home, options.gigabytes, kind)
        source = tables.source(home, target, options.megabytes)
        print(f"{target.name}: made or opened in {time.perf_counter() - start:.0f} s", flush=True)

        def measure(target: Path = target, source: Path = source) -> dict[str, Any]:
            return _merge(home, target, source, {name: limits[name] for name in options.contestants})

        record = page.keep(results, f"large-merge-{kind}", 1, measure)
        print(f"\n## {kind}: {page.taken(record)}\n\n{show('', record['result'])}\n", flush=True)
        is_within &= not record["result"]["contestants"].get("arrow", {}).get("is_killed", False)
    if options.write:
        page.fill_page(page.DOCS / "benchmarks.md", results, show)
    return 0 if is_within else 1


def show(_: str, result: Mapping[str, Any]) -> str:
    """The result as Markdown: a line for each contestant."""
    rows = []
    for name, run in result["contestants"].items():
        end = f"killed after {seconds(run['seconds'])}" if run["is_killed"] else seconds(run["seconds"])
        limit = run["limit"] / _MIB
        rows.append([name, end, f"{run['peak_mb'] * 1e6 / _MIB:,.0f}", f"{limit:,.0f}", f"{run['opened']:,}"])
    title = (
        f"{result['rows']:,} rows in {result['files']} files of {result['bytes'] / 1e9:.2f} GB "
        f"({result['plain_bytes'] / 1e9:.2f} GB before the compression). The source has {result['source_rows']:,} rows "
        f"in {result['source_bytes'] / 1e6:.0f} MB. Rows and checksum are correct."
    )
    head = ["", "merge", "peak MiB", "limit MiB", "files opened"]
    return f"{title}\n\n{table(head, rows)}"


def _merge(home: Path, target: Path, source: Path, limits: Mapping[str, int]) -> dict[str, Any]:
    expected = checks.content(target, checks.merged(source))
    contestants = {}
    for name, limit in limits.items():
        copied = home / f"{target.name}-{name}"
        data.copy(target, copied, is_cached=False)
        process = ContestantProcess(name, home / f"{name}.log", limit=limit)
        run = process.run("merge", copied, {"source": str(source)})
        process.close()
        contestants[name] = {**run._asdict(), "limit": limit}
        if not run.is_killed:
            content = checks.content(copied)
            if content != expected:
                raise SystemExit(f"{name}: the table {copied} has {content}; expected {expected}")
        shutil.rmtree(copied)
    size, plain_size = tables.sizes(target)
    return {
        "rows": tables.rows(checks.files(target)),
        "files": len(checks.files(target)),
        "bytes": size,
        "plain_bytes": plain_size,
        "source_rows": tables.rows([source]),
        "source_bytes": source.stat().st_size,
        "contestants": contestants,
    }


def _check_space(home: Path, gigabytes: float) -> None:
    is_made = (home / f"large-{gigabytes:g}-copy").exists()
    needed, free = (1.2 if is_made else 2.2) * gigabytes * 1e9, shutil.disk_usage(home).free
    if free < needed:
        raise SystemExit(f"{home} has {free / 1e9:.1f} GB of free space; expected {needed / 1e9:.1f} GB")


if __name__ == "__main__":
    sys.exit(main())
