"""Questions to a files table that several operations ask."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, int64s, literal, numbers_of, whole
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.partition_values import partition_column
from lakehouse_lib.schema import Schema, TableLayout
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.store import ObjectStore

#: Files with a greater share of deleted rows are rewritten without them (delta-spark's maxDeletedRowsRatio).
MOST_DELETED = 0.05


def live_records(files: pa.Table) -> pa.Array:
    """Rows of each file by its statistics, without those that its deletion vector names; null where it does not say.

    ``numRecords`` is what the file holds, deleted rows included (PROTOCOL.md, Writer Requirement for Deletion Vectors).
    """
    deleted = pc.struct_field(files["deletionVector"], "cardinality")
    counts = pc.subtract(num_records(files), pc.fill_null(deleted, literal(0, pa.int64())))
    return whole(counts)


def has_many_deleted_rows(files: pa.Table) -> NDArray[np.bool_]:
    """Which files maintenance rewrites for their deletion vectors: more than 5% of the rows are deleted.

    A file with a deletion vector that does not say how many rows it holds is one of them.
    """
    many = np.zeros(len(files), np.bool_)
    marked = np.flatnonzero(flags_of(files["deletionVector"].is_valid()))
    if len(marked):
        chosen = files.select(["stats", "deletionVector"]).take(int64s(marked))
        deleted = numbers_of(pc.struct_field(chosen["deletionVector"], "cardinality"), np.int64)
        held = numbers_of(pc.fill_null(num_records(chosen), literal(0, pa.int64())), np.int64)
        many[marked] = deleted > MOST_DELETED * held
    return many


def count_rows(snapshot: Snapshot) -> int:
    """Rows of a version: by the log where it says, else by the files' footers.

    Raises:
        ObjectNotFoundError, StoreError, LogCorruptedError: a file whose footer is needed is not what it should be.
    """
    files = snapshot.files
    counts = live_records(files)
    reader = TableReader(snapshot.store, snapshot.layout, Schema([]))
    total = int(pc.sum(counts).as_py() or 0)
    for file, _ in reader.files(files.filter(counts.is_null())):
        total += file.live_rows
    return total


def record_count(files: pa.Table) -> int | None:
    """Rows of these files by the log, deleted ones not counted; None when a file does not say."""
    counts = live_records(files)
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)


def total_size(files: pa.Table) -> int:
    """Bytes of these files."""
    return int(pc.sum(files["size"]).as_py() or 0)


def size_summary(files: pa.Table) -> dict[str, float | int]:
    """Mean, largest, smallest and total size in bytes, and how many files, under delta-rs' names; zeros for none."""
    sizes = numbers_of(files["size"], np.int64)
    count = len(sizes)
    return {
        "avg": float(sizes.mean()) if count else 0.0,
        "max": int(sizes.max()) if count else 0,
        "min": int(sizes.min()) if count else 0,
        "totalFiles": count,
        "totalSize": int(sizes.sum()),
    }


def discard(store: ObjectStore, files: pa.Table) -> None:
    """Delete data files that no commit names; best effort, for vacuum takes what stays."""
    discard_paths(store, file_paths.canonical(files["path"], store))


def discard_paths(store: ObjectStore, paths: pa.Array) -> None:
    """Delete objects that no commit names, by their paths in the store; best effort, for vacuum takes what stays."""
    with suppress(DeltaError):  # the error that led here is the one to report
        store.delete_many(paths.to_pylist())


def partition_codes(files: pa.Table, layout: TableLayout) -> NDArray[np.int64]:
    """A small whole number a file, equal for the files of one partition. By typed value: one has many spellings."""
    codes = np.zeros(len(files), dtype=np.int64)
    for name, key in layout.partition_keys.items():
        values = partition_column(files, key, layout.schema.field(name).type)
        column = pc.dictionary_encode(values, null_encoding="encode")
        codes = codes * len(column.dictionary) + numbers_of(column.indices, np.int32)
        codes = np.unique(codes, return_inverse=True)[1]
    return codes
