"""The tables of the benchmark: the same orders in 200 small files, in 4 big ones and clustered.

delta-rs writes them, so that the files do not favour this library. They are made once.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from numpy.typing import NDArray

SMALL_FILES = 200
BIG_FILES = 4
#: The approximate number of files of the clustered table.
CLUSTERED_FILES = 64
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


def make(home: Path, rows: int, kind: str) -> Path:
    """A table of orders; a missing one is made.

    Args:
        kind: ``small``: of small files, ordered by ``order_id``; ``big``: of big files; ``marked``: of big files, with
            deletion vectors enabled; ``clustered``: Z-ordered by customer.
    """
    path = home / f"orders-{rows}-{kind}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if kind == "clustered":
        _cluster(make(home, rows, "small"), unfinished)
    else:
        properties = {"delta.enableDeletionVectors": "true"} if kind == "marked" else {}
        each = rows // SMALL_FILES
        together = SMALL_FILES // (SMALL_FILES if kind == "small" else BIG_FILES)
        for first in range(0, SMALL_FILES, together):
            part = pa.concat_tables([orders(number * each, each, rows) for number in range(first, first + together)])
            # A huge target size, so that each part is one file.
            write_deltalake(unfinished, part, mode="append", target_file_size=1 << 40, configuration=properties)
    DeltaTable(unfinished).create_checkpoint()
    unfinished.rename(path)
    return path


def _cluster(source: Path, target: Path) -> None:
    copy(source, target)
    table = DeltaTable(target)
    size = sum(Path(uri.removeprefix("file://")).stat().st_size for uri in table.file_uris())
    table.optimize.z_order(["customer"], target_size=math.ceil(size / CLUSTERED_FILES))


def changes(home: Path, rows: int, count: int) -> Path:
    """A file of ``count`` orders to merge: of each hundred, one is new, and the others replace random orders."""
    ids = np.sort(np.random.default_rng(11).choice(rows, count, replace=False))
    ids[-max(1, count // 100) :] += rows
    return _source(home / f"changes-{rows}-{count}.parquet", ids, rows)


def changes_of_files(home: Path, rows: int, count: int, files: int) -> Path:
    """A file of about ``count`` orders to merge: they replace orders of ``files`` of the small files."""
    each = rows // SMALL_FILES
    random = np.random.default_rng(13)
    starts = np.arange(files) * (SMALL_FILES // files) * each
    share = min(each, max(1, count // files))
    ids = np.concatenate([start + np.sort(random.choice(each, share, replace=False)) for start in starts])
    return _source(home / f"changes-{rows}-{count}-of-{files}-files.parquet", ids, rows)


def _source(path: Path, ids: NDArray[np.int64], rows: int) -> Path:
    if not path.exists():
        pq.write_table(orders(0, len(ids), rows).set_column(0, "order_id", pa.array(ids)), path)
    return path


def copy(source: Path, target: Path, *, is_cached: bool = True) -> None:
    """A copy of the table: hard links to its data files, which are immutable, and a copy of the log.

    Args:
        is_cached: reads the files into the page cache.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=_link)
    for path in target.rglob("*.parquet") if is_cached else ():
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass
    os.sync()


def _link(source: str, target: str) -> None:
    if "_delta_log" in Path(source).parts:
        shutil.copy2(source, target)
    else:
        os.link(source, target)
