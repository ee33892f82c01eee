"""Plan the maintenance of 500 tables of 1,000 files with nothing to do, in a new process: seconds and peak memory.

The tables have a log and no data files: a commit, a checkpoint, and nine more commits.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import ROOT
from lakehouse_lib import DeltaTable

_HOME = ROOT / ".bench"
_SIZE = 200 * 2**20
_LATER_COMMITS = 9


def make(home: Path, tables: int, files: int) -> Path:
    """The folder of the tables, made once."""
    folder = home / f"fleet-{tables}-{files}"
    if folder.exists():
        return folder
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    log = unfinished / "t000" / "_delta_log"
    log.mkdir(parents=True)
    now = int(time.time() * 1000)
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "customer")]
    schema = json.dumps({"type": "struct", "fields": fields})
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "fleet",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
        *(_add(number, now) for number in range(files)),
    ]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    DeltaTable(unfinished / "t000").create_checkpoint()
    for version in range(1, _LATER_COMMITS + 1):
        (log / f"{version:020d}.json").write_text(json.dumps(_add(files + version, now)))
    for number in range(1, tables):
        shutil.copytree(unfinished / "t000", unfinished / f"t{number:03d}")
    unfinished.rename(folder)
    return folder


def _add(number: int, now: int) -> dict[str, object]:
    bounds = {"id": number, "customer": 0}
    statistics = {
        "numRecords": 1000,
        "minValues": bounds,
        "maxValues": {"id": number, "customer": 9},
        "nullCount": {"id": 0, "customer": 0},
    }
    return {
        "add": {
            "path": f"part-{number:05d}.parquet",
            "partitionValues": {},
            "size": _SIZE,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps(statistics),
        }
    }


def plan(folder: Path) -> dict[str, float]:
    """Plan the fleet in this process, and measure it."""
    start = time.perf_counter()
    from lakehouse_lib.fleet.maintenance import plan_fleet
    from lakehouse_lib.fleet.planner.budget import Budget
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.store import open_store

    tables = [MaintainedTable(path.name, open_store(path)) for path in sorted(folder.iterdir())]
    fleet = plan_fleet(tables, Budget())
    seconds = time.perf_counter() - start
    if fleet.plan.steps or fleet.errors:
        raise SystemExit(f"the plan is {fleet.to_dict()}; expected nothing to do")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tables": len(tables), "seconds": seconds, "peak MB": peak}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance.plan", description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--files", type=int, default=1_000, help="files of each table")
    parser.add_argument("--home", type=Path, default=_HOME)
    parser.add_argument("--in-this-process", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.in_this_process:
        print(json.dumps(plan(options.in_this_process)))
        return 0
    folder = make(options.home, options.tables, options.files)
    command = [sys.executable, "-m", "benchmarks.maintenance.plan", "--in-this-process", str(folder)]
    for _ in range(3):
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        measured = json.loads(done.stdout)
        print(f"{measured['tables']:.0f} tables: {measured['seconds']:.1f} s, {measured['peak MB']:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
