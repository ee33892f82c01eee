"""A large table of real, compressible files, and a source with keys of all its files.

delta-rs writes the files, so that they do not favour this library. They are made once.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, TableFeatures, WriterProperties, write_deltalake

from benchmarks import checks, data

_FILE_ROWS = 1_000_000
_ROW_GROUP = 250_000  # about 130 MB before the compression
_LEAST_FILES = 8
#: About the size of a row on the disk, to choose the number of rows in a file of a small table.
_ROW_BYTES = 250
_WORDS, _WORDS_OF_NOTE = 1_024, 40
_THREADS = 2


def make(home: Path, gigabytes: float, kind: str) -> Path:
    """A table whose files have at least this size; a missing one is made.

    Args:
        kind: ``copy``: without deletion vectors; ``vectors``: the same files, with deletion vectors enabled.
    """
    path = home / f"large-{gigabytes:g}-{kind}"
    if path.exists():
        return path
    unfinished = path.with_name(f"{path.name}.unfinished")
    if kind == "vectors":
        data.copy(make(home, gigabytes, "copy"), unfinished, is_cached=False)
        table = DeltaTable(unfinished)
        table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
        table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    else:
        shutil.rmtree(unfinished, ignore_errors=True)
        _write(unfinished, gigabytes * 1e9)
    DeltaTable(unfinished).create_checkpoint()
    unfinished.rename(path)
    return path


def rows(paths: Iterable[str | Path]) -> int:
    """The number of rows of Parquet files, from their footers."""
    return sum(pq.ParquetFile(path).metadata.num_rows for path in paths)


def sizes(table: Path) -> tuple[int, int]:
    """The bytes of the files, and of their column chunks before the compression."""
    paths = checks.files(table)
    footers = [pq.ParquetFile(path).metadata for path in paths]
    plain = sum(footer.row_group(group).total_byte_size for footer in footers for group in range(footer.num_row_groups))
    return sum(Path(path).stat().st_size for path in paths), plain


def source(home: Path, table: Path, megabytes: float) -> Path:
    """A file of this size to merge: of each hundred rows, one is new, and the others replace rows of all files."""
    path = home / f"{table.name.rsplit('-', 1)[0]}-changes-{megabytes:g}.parquet"
    if not path.exists():
        total = rows(checks.files(table))
        count = max(100, round(megabytes * 1e6 / (sizes(table)[0] / total)))
        ids = np.sort(np.random.default_rng(17).choice(total, count, replace=False))
        ids[-max(1, count // 100) :] += total
        orders = _orders(0, count, _notes(seed=19)).set_column(0, "order_id", pa.array(ids))
        pq.write_table(orders, path, row_group_size=_ROW_GROUP)
    return path


def _write(table: Path, size: float) -> None:
    notes = _notes(seed=5)
    file_rows = min(_FILE_ROWS, math.ceil(size / _LEAST_FILES / _ROW_BYTES))

    def write(number: int) -> None:
        # A huge target size, so that each part is one file.
        properties = WriterProperties(compression="SNAPPY", max_row_group_size=_ROW_GROUP)
        part = _orders(number * file_rows, file_rows, notes)
        write_deltalake(table, part, mode="append", target_file_size=1 << 40, writer_properties=properties)

    write(0)
    (first,) = checks.files(table)
    count = math.ceil(size / Path(first).stat().st_size)
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(write, range(1, count)):
            pass
    if DeltaTable(table).version() != count - 1:
        raise SystemExit(f"{table} has version {DeltaTable(table).version()}; expected {count - 1}")


def _orders(start: int, count: int, notes: pa.Array) -> pa.Table:
    """Orders with a column ``note``: the texts of ``notes`` repeated in order, from a random start."""
    # The customers and items of a table of a hundred files.
    orders = data.orders(start, count, _FILE_ROWS * 100)
    first = int(np.random.default_rng([23, start]).integers(0, len(notes)))
    return orders.append_column("note", notes.take(pa.array((first + np.arange(count)) % len(notes))))


def _notes(*, seed: int) -> pa.Array:
    """Different texts of 519 bytes, of random words, which Snappy compresses to about half their size."""
    random = np.random.default_rng(seed)
    words = pa.array([random.bytes(6).hex() for _ in range(_WORDS)])
    count = 100_000
    columns = [words.take(pa.array(random.integers(0, _WORDS, count))) for _ in range(_WORDS_OF_NOTE)]
    return pc.binary_join_element_wise(*columns, " ")
