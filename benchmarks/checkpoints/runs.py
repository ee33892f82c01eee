"""A process that opens a table and writes its checkpoint: ``python -m benchmarks.checkpoints.runs WHO NAME TABLE``.

The table is copied by hard links before the clock starts. Prints lines of JSON as ``benchmarks.log.runs`` does. In
``more``, ``checkpoint`` is the time of the call, and ``megabytes`` the size of the new log files. The answer is the
number of files in the new checkpoint, read without the commits.
"""

from __future__ import annotations

import time

_START = time.perf_counter()

import json  # noqa: E402 - the clock runs first
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402


def opened(name: str) -> Callable[[str], Callable[[], object]]:
    """A function that opens a table and returns a function that writes its checkpoint. Imports the library."""
    if name == "delta-rs":
        from deltalake import DeltaTable

        return lambda table: DeltaTable(table).create_checkpoint
    from lakehouse_lib.snapshot import load_snapshot
    from lakehouse_lib.store import LocalStore
    from lakehouse_lib.transaction.post_commit import checkpoint_snapshot

    def checkpoint_of(table: str) -> Callable[[], object]:
        snapshot = load_snapshot(LocalStore(table, fsync=name == "ours-synced"))
        return lambda: checkpoint_snapshot(snapshot)

    return checkpoint_of


def main(name: str, table: Path) -> None:
    from benchmarks.log import tables
    from benchmarks.log.runs import peak_mb

    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        own = tables.copy(table, Path(folder, "table"))
        before = _objects(own)
        open_table = opened(name)
        imports = time.perf_counter() - _START
        checkpoint = open_table(str(own))
        open_seconds, open_cpu = time.perf_counter() - _START, time.process_time()
        checkpoint()
        seconds, cpu = time.perf_counter() - _START, time.process_time()
        new = sum(size for path, size in _objects(own).items() if path not in before)
        more = {
            "checkpoint": seconds - open_seconds,
            "checkpoint_cpu": cpu - open_cpu,
            "with_opening": seconds - imports,
            "megabytes": new / 1e6,
        }
        _say(
            {
                "seconds": seconds,
                "cpu": cpu,
                "imports": imports,
                "opened": open_seconds,
                "peak_mb": peak_mb(),
                "more": more,
            }
        )
        del checkpoint
        _say({"count": _files(own), "digest": ""})


def _objects(table: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in (table / "_delta_log").rglob("*") if path.is_file()}


def _files(table: Path) -> int:
    from lakehouse_lib import DeltaTable

    for path in sorted((table / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()
    snapshot = DeltaTable(table).snapshot
    if snapshot.checkpoint_version != snapshot.version:
        raise SystemExit(f"version {snapshot.version} has no checkpoint")
    return snapshot.file_count


def _say(body: dict[str, Any]) -> None:
    print(json.dumps(body), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[3]))
