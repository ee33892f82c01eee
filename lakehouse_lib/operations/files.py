"""Row counts, sizes and partitions of files, their division among tasks, and the deletion of unreferenced files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import as_array, flags_of, int64s, literal, numbers_of
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.partition_values import partition_column
from lakehouse_lib.schema import Schema, TableLayout
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.store import ObjectStore

#: Files with a greater share of deleted rows are rewritten without them (delta-spark's maxDeletedRowsRatio).
MOST_DELETED = 0.05
#: The most files of a task, and the tasks for each processor.
_MOST_FILES, _TASKS_A_PROCESSOR = 1_000, 4


def live_records(files: pa.Table) -> pa.Array:
    """The number of live rows of each file: ``numRecords`` minus the deletion vector's cardinality.

    ``numRecords`` counts deleted rows too (PROTOCOL.md, Writer Requirement for Deletion Vectors). The result is null
    for a file without ``numRecords``.
    """
    deleted = pc.struct_field(files["deletionVector"], "cardinality")
    counts = pc.subtract(num_records(files), pc.fill_null(deleted, literal(0, pa.int64())))
    return as_array(counts)


def has_many_deleted_rows(files: pa.Table) -> NDArray[np.bool_]:
    """Which files have more than 5% deleted rows. Compaction and Z-order rewrite these files without the deleted rows.

    The result is also true for a file with a deletion vector and without ``numRecords``.
    """
    many = np.zeros(len(files), np.bool_)
    marked = np.flatnonzero(flags_of(files["deletionVector"].is_valid()))
    if len(marked):
        marked_files = files.select(["stats", "deletionVector"]).take(int64s(marked))
        deleted = numbers_of(pc.struct_field(marked_files["deletionVector"], "cardinality"), np.int64)
        records = numbers_of(pc.fill_null(num_records(marked_files), literal(0, pa.int64())), np.int64)
        many[marked] = deleted > MOST_DELETED * records
    return many


def live_share(files: pa.Table) -> NDArray[np.float64]:
    """The share of each file's rows that no deletion vector hides; 1 if the number of rows is unknown."""
    deleted = pc.fill_null(pc.struct_field(files["deletionVector"], "cardinality"), literal(0, pa.int64()))
    hidden = numbers_of(deleted, np.int64).astype(np.float64)
    share = np.ones(len(files))
    if hidden.any():
        records = numbers_of(pc.fill_null(num_records(files), literal(0, pa.int64())), np.int64)
        counted_files = np.flatnonzero((hidden > 0) & (records > 0))
        share[counted_files] = np.maximum(0.0, 1 - hidden[counted_files] / records[counted_files])
    return share


def count_rows(snapshot: Snapshot) -> int:
    """The number of live rows of a version, from the statistics in the log.

    For files without ``numRecords``, the footers are read.

    Raises:
        ObjectNotFoundError, StoreError, LogCorruptedError: a file whose footer is needed is missing or cannot be read.
    """
    files = snapshot.files
    counts = live_records(files)
    total = int(pc.sum(counts).as_py() or 0)
    if counts.null_count:
        from lakehouse_lib.engine.parquet.reader import TableReader

        reader = TableReader(snapshot.store, snapshot.layout, Schema([]))
        total += sum(file.live_rows for file, _ in reader.files(files.filter(counts.is_null())))
    return total


def record_count(files: pa.Table) -> int | None:
    """The number of live rows of these files according to the log; None if a file has no ``numRecords``."""
    counts = live_records(files)
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)


def total_size(files: pa.Table) -> int:
    """The total size of these files in bytes."""
    return int(pc.sum(files["size"]).as_py() or 0)


def size_summary(files: pa.Table) -> dict[str, float | int]:
    """The mean, largest, smallest and total size in bytes and the number of files, under delta-rs' names.

    Without files, all values are 0.
    """
    sizes = numbers_of(files["size"], np.int64)
    count = len(sizes)
    return {
        "avg": float(sizes.mean()) if count else 0.0,
        "max": int(sizes.max()) if count else 0,
        "min": int(sizes.min()) if count else 0,
        "totalFiles": count,
        "totalSize": int(sizes.sum()),
    }


def size_quantiles(files: pa.Table) -> dict[str, int]:
    """The quartiles of the sizes in bytes, under delta-spark's names; empty without files."""
    sizes = np.sort(numbers_of(files["size"], np.int64))
    last = len(sizes) - 1
    names = ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")
    return (
        {name: int(sizes[min(last, len(sizes) * part // 4)]) for part, name in enumerate(names)} if len(sizes) else {}
    )


def file_shares(files: pa.Table, parallelism: int) -> Iterator[pa.Table]:
    """The files of each task that reads footers or few columns, in order: at most 1,000, and about equally many.

    Each share has its own memory. A pickled slice would contain all files, in each task.

    Args:
        files: at least the column ``path`` of a files table.
        parallelism: of the engine that runs the tasks.
    """
    count = max(1, min(_MOST_FILES, -(-len(files) // (_TASKS_A_PROCESSOR * parallelism))))
    for start in range(0, len(files), count):
        share = files.slice(start, count).combine_chunks()
        yield share.take(int64s(range(len(share))))


def discard(store: ObjectStore, files: pa.Table) -> None:
    """Delete data files that no commit refers to. Files that cannot be deleted are left to vacuum."""
    discard_paths(store, file_paths.canonical(files["path"], store))


def discard_paths(store: ObjectStore, paths: pa.Array) -> None:
    """Delete objects that no commit refers to, by store path. Objects that cannot be deleted are left to vacuum."""
    with suppress(DeltaError):  # the caller reports the error that led here
        store.delete_many(paths.to_pylist())


def partition_codes(files: pa.Table, layout: TableLayout) -> NDArray[np.int64]:
    """A small whole number for each file. Files of the same partition have the same number.

    Partitions are compared by typed values, because a value may have several spellings in the log.
    """
    codes = np.zeros(len(files), dtype=np.int64)
    for name, key in layout.partition_keys.items():
        values = partition_column(files, key, layout.schema.field(name).type)
        column = pc.dictionary_encode(values, null_encoding="encode")
        codes = codes * len(column.dictionary) + numbers_of(column.indices, np.int32)
        codes = np.unique(codes, return_inverse=True)[1]
    return codes
