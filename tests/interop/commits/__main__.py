"""``make interop-commits``: commits of this library, delta-rs and delta-spark on one table.

``make interop-commits-s3`` does so with delta-rs on a real S3 server, where delta-spark cannot commit safely.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from tests.interop.commits.interleave import PEER, interleave
from tests.s3.server import running

CREWS = {
    "delta-rs": {"ours": 2, "delta-rs": 2},
    "delta-spark": {"ours": 1, "delta-rs": 1, "delta-spark": 1},
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.commits", description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000, help="commits in a table (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=1_800, help="most seconds for a table (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the operations; default: a new one")
    parser.add_argument("--beside", nargs="+", choices=CREWS, default=None, help="the other libraries (default: all)")
    parser.add_argument("--s3", action="store_true", help="use an S3 server, not the disk")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    peers = options.beside or (["delta-rs"] if options.s3 else list(CREWS))
    if options.s3 and "delta-spark" in peers:
        parser.error("delta-spark's commits to S3 are not safe with other writers")
    if "delta-spark" in peers and not PEER.exists():
        parser.error(f"{PEER} does not exist; `make interop-commits` creates it")
    violations = missing = unjudged = 0
    where = " in S3" if options.s3 else ""
    for peer in peers:
        folder = Path(tempfile.mkdtemp(prefix="lakehouse-commits-"))
        with running(folder / "s3") if options.s3 else nullcontext() as server:
            result = interleave(
                folder,
                CREWS[peer],
                commits=options.commits,
                seconds=options.seconds,
                seed=seed,
                versions=20,
                server=server,
            )
        shares = ", ".join(f"{count} of {library}" for library, count in result.commits.items())
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(result.verdict.kinds.items()))
        print(
            f"beside {peer}{where}, seed {seed}: {result.verdict.versions - 1} commits in {result.seconds:.0f} s "
            f"({shares}; {kinds}), {result.verdict.looked_at} versions read by all, "
            f"{len(result.verdict.violations)} violations"
        )
        for what, errors in (("refused", result.records.refused), ("failed", result.records.failed)):
            for (library, error), count in Counter(map(_shortened, errors.items())).most_common(8):
                print(f"  {what} {count} times, {library}: {error}")
        for violation in result.verdict.violations:
            print(f"  VIOLATION: {violation}")
        for replacement in result.verdict.replaced:
            print(f"  REPLACED: {replacement}; the rows are not compared")
        violations += len(result.verdict.violations)
        unjudged += bool(result.verdict.replaced)
        missing += max(options.commits - (result.verdict.versions - 1), 0)
        if result.verdict.violations:
            print(f"  kept in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    if missing:
        print(f"{missing} commits were not made in time: give it more (--seconds), or a machine that does less besides")
    if unjudged:
        print("delta-spark replaced a commit of another writer (docs/stores.md); run it again to compare the rows")
    return 1 if violations or missing else 0


def _shortened(refusal: tuple[str, str]) -> tuple[str, str]:
    """The library of a failed operation, and its error without the parts that differ each time."""
    name, error = refusal
    number = int(name.partition("-")[0])
    library = "ours" if number < 100 else "delta-rs" if number < 200 else "delta-spark"
    return library, error.partition(":")[0]


if __name__ == "__main__":
    sys.exit(main())
