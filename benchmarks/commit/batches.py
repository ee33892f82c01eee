"""Rows to append, the tables to append to, and commits of other writers, without data files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.log.file_statistics import COLUMNS

ROWS = 100  # of a small append
START_ROWS = 1000  # of the table for conflicts
_NAMES = pa.array(["Abbott", "Bauer", "Castro", "Dubois", "Eriksen"])


def batch(number: int, rows: int = ROWS) -> pa.Table:
    """The rows of append ``number``, with unique ids, in the columns of ``benchmarks.log.tables``."""
    random = np.random.default_rng([13, number])
    values = [
        pa.array(np.arange(number * rows, (number + 1) * rows)),
        pa.array(random.integers(0, 5_000, rows)),
        pa.array(np.round(random.uniform(0, 1000, rows), 2)),
        pa.array(np.full(rows, 20_000 + number // 100, np.int32)).cast(pa.date32()),
        pa.array(1_700_000_000_000_000 + random.integers(0, 86_400_000_000, rows)).cast(pa.timestamp("us", "UTC")),
        _NAMES.take(pa.array(random.integers(0, len(_NAMES), rows))),
    ]
    return pa.table(values, names=list(COLUMNS))


def make(home: Path, interval: int | None) -> Path:
    """A table of one file; a missing one is made, by delta-rs, so that its files do not favour this library.

    Args:
        interval: commits between checkpoints; None: each writer's default.
    """
    path = home / f"commit-start-{interval or 'default'}"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        configuration = {"delta.checkpointInterval": str(interval)} if interval else None
        write_deltalake(str(unfinished), batch(0, START_ROWS), configuration=configuration)
        unfinished.rename(path)
    return path


def write_others(table: Path, first: int, count: int) -> None:
    """Write ``count`` commits of other writers from version ``first`` on; each adds a file with unique ids."""
    for version in range(first, first + count):
        low = 10_000_000 + version * 1000
        bounds = ({"id": low, "customer": 0}, {"id": low + 999, "customer": 4999})
        stats = {"numRecords": 1000, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": {"id": 0}}
        info = {"timestamp": 1_700_000_000_000, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
        add = {
            "path": f"part-00000-{version:08d}-0000-4000-8000-000000000000-c000.snappy.parquet",
            "partitionValues": {},
            "size": 30_000,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
        lines = [{"commitInfo": {**info, "isBlindAppend": True}}, {"add": add}]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (table / "_delta_log" / f"{version:020d}.json").write_text(text)
