"""The tables of the benchmark: the same orders in 200 small files and in 4 big ones.

delta-rs writes them, so that the files do not favour this library. They are made once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

SMALL_FILES = 200
BIG_FILES = 4
_STATUS = ["open", "packed", "paid", "returned", "shipped"]


def customers(rows: int) -> int:
    """The number of customers in a table of ``rows`` orders: ten orders each."""
    return rows // 10


def items(rows: int) -> int:
    """The number of items in a table of ``rows`` orders: a hundred orders each."""
    return rows // 100


def orders(start: int, count: int, rows: int) -> pa.Table:
    """Orders ``start`` to ``start + count`` of ``rows``, reproducible: ids and days ascend, the rest is uniform."""
    random = np.random.default_rng([7, start])
    days = 19_000 + (start + np.arange(count)) // 20_000
    return pa.table(
        {
            "order_id": np.arange(start, start + count),
            "customer": random.integers(0, customers(rows), count),
            "item": random.integers(0, items(rows), count).astype(np.int32),
            "quantity": np.round(random.gamma(2.0, 10.0, count), 2),
            "day": pa.array(days.astype(np.int32)).cast(pa.date32()),
            "status": pa.array(_STATUS).take(pa.array(random.integers(0, len(_STATUS), count))),
        }
    )


def make(home: Path, rows: int) -> tuple[Path, Path, Path]:
    """The tables of small files, of big files, and of big files with deletion vectors; missing ones are made."""
    each = rows // SMALL_FILES
    small, big, marked = (home / f"orders-{rows}-{kind}" for kind in ("small", "big", "marked"))
    vectors = {"delta.enableDeletionVectors": "true"}
    for path, files, properties in ((small, SMALL_FILES, {}), (big, BIG_FILES, {}), (marked, BIG_FILES, vectors)):
        if path.exists():
            continue
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        together = SMALL_FILES // files
        for first in range(0, SMALL_FILES, together):
            part = pa.concat_tables([orders(number * each, each, rows) for number in range(first, first + together)])
            # A huge target size, so that each part is one file.
            write_deltalake(unfinished, part, mode="append", target_file_size=1 << 40, configuration=properties)
        DeltaTable(unfinished).create_checkpoint()
        unfinished.rename(path)
    return small, big, marked


def changes(home: Path, rows: int, count: int) -> Path:
    """A file of ``count`` orders to merge: of each hundred, one is new, and the others replace random orders."""
    path = home / f"changes-{rows}-{count}.parquet"
    if not path.exists():
        ids = np.sort(np.random.default_rng(11).choice(rows, count, replace=False))
        ids[-max(1, count // 100) :] += rows
        pq.write_table(orders(0, count, rows).set_column(0, "order_id", pa.array(ids)), path)
    return path


def copy(source: Path, target: Path) -> None:
    """A copy of the table: hard links to its data files, which are immutable, and a copy of the log."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=_link)
    for path in target.rglob("*.parquet"):  # into the page cache
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass
    os.sync()


def _link(source: str, target: str) -> None:
    if "_delta_log" in Path(source).parts:
        shutil.copy2(source, target)
    else:
        os.link(source, target)
