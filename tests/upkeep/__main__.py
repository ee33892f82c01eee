"""``make test-upkeep``: writers and readers of one table, first alone, then beside its maintenance.

No operation may fail, no row may be lost or doubled, and the latency of readers is printed for both halves.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from tests.upkeep.run import Half, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upkeep", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of both halves together (default: %(default)s)")
    parser.add_argument("--writers", type=int, default=3, help="processes that write (default: %(default)s)")
    parser.add_argument("--readers", type=int, default=1, help="processes that read (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-upkeep-"))
    result = run(folder, options.seconds, options.writers, options.readers, options.seed)
    for name, half in (("alone", result.alone), ("beside maintenance", result.beside)):
        print(f"{name}: {_counts(half)}; a reader needs {_latency(half.latencies)}")
    print(f"{result.rows} rows, {result.files} files, version {result.version}")
    for problem in result.problems:
        print(f"  PROBLEM: {problem}")
    if result.problems:
        print(f"  kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _counts(half: Half) -> str:
    return ", ".join(f"{count} {verb}" for verb, count in sorted(half.counts.items()))


def _latency(seconds: Sequence[float]) -> str:
    if len(seconds) < 2:
        return f"an unknown time ({len(seconds)} reads)"
    return f"{median(seconds):.2f} s (95%: {quantiles(seconds, n=20)[-1]:.2f} s, {len(seconds)} reads)"


if __name__ == "__main__":
    sys.exit(main())
