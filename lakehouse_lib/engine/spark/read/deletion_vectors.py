"""Deletion vectors on Spark: the deleted rows of a scan as a small table beside it, 64 rows of a file to a word.

Rows do not cross to Python. A row of the table says (file, block, bits): of the rows ``64 * block`` to
``64 * block + 63`` of that file, those whose bit is set are deleted. A deleted row costs at most 16 bytes here, a file
that lost every row one bit a row, and Spark packs the two keys into one number when it joins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.threads import in_order

_THREADS = 8
# A word takes some 50 bytes in Spark's hash table. Beyond this many they are not broadcast to every executor.
_MOST_BROADCAST = 4_000_000
# Statistics are of the physical rows; the protocol demands this one of a file with a vector.
_NUM_RECORDS = r'"numRecords"\s*:\s*(?P<rows>[0-9]{1,18})'
_BLOCK, _BITS = "__lakehouse_block", "__lakehouse_bits"


def without_deleted(spark: Any, frame: Any, files: pa.Table, store: ObjectStore, *, file: str, row: str) -> Any:
    """The rows of ``frame`` that no deletion vector of its file names.

    Args:
        files: a files table; ones without a vector lose nothing.
        file: the column of ``frame`` with a row's file, as a row number of ``files``.
        row: the column with a row's position in its file.

    Raises:
        LogCorruptedError, ObjectNotFoundError: a vector that cannot be used or is missing.
    """
    from pyspark.sql import functions as F

    words = deleted_words(files, store)
    if not len(words):
        return frame
    deleted = spark.createDataFrame(
        words.rename_columns([file, _BLOCK, _BITS]), f"`{file}` int, `{_BLOCK}` int, `{_BITS}` long"
    )
    if len(words) <= _MOST_BROADCAST:
        deleted = F.broadcast(deleted)
    blocks = frame.withColumn(_BLOCK, F.shiftright(row, 6).cast("int"))
    bit = F.call_function("shiftrightunsigned", F.col(_BITS), F.col(row).bitwiseAND(F.lit(63)).cast("int"))
    is_live = F.col(_BITS).isNull() | (bit.bitwiseAND(F.lit(1)) == 0)
    return blocks.join(deleted, [file, _BLOCK], "left").where(is_live)


def deleted_words(files: pa.Table, store: ObjectStore) -> pa.Table:
    """The table of deleted rows: file int32 (row of ``files``), block int32, bits int64; empty without vectors."""
    vectors = files["deletionVector"].combine_chunks()
    counts = pc.struct_field(pc.extract_regex(files["stats"].combine_chunks(), _NUM_RECORDS), "rows").cast(pa.int64())
    marked = np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))

    def words(index: np.int64) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        bitmap = deletion_vector.load(store, vectors[int(index)].as_py())
        if counts[index].is_valid:
            path = files["path"][int(index)].as_py()
            deletion_vector.check_rows(bitmap, path, counts[index].as_py(), table=store.root)
        return _words(deletion_vector.positions(bitmap))

    numbers: list[npt.NDArray[np.int32]] = []
    blocks: list[npt.NDArray[np.int32]] = []
    bits: list[npt.NDArray[np.int64]] = []
    for index, (block, word) in zip(marked, in_order(words, marked, _THREADS), strict=True):
        numbers.append(np.full(len(block), index, dtype=np.int32))
        blocks.append(block)
        bits.append(word)
    columns = [
        pa.array(np.concatenate([np.empty(0, kind), *parts]).astype(kind))
        for kind, parts in ((np.int32, numbers), (np.int32, blocks), (np.int64, bits))
    ]
    return pa.table(columns, names=["file", "block", "bits"])


def _words(positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Ascending positions as blocks of 64 and their bits."""
    if not len(positions):
        return np.empty(0, np.int32), np.empty(0, np.int64)
    block = (positions >> 6).astype(np.int32)
    bit = np.int64(1) << (positions & 63)
    first = np.flatnonzero(np.r_[True, block[1:] != block[:-1]])
    return block[first], np.bitwise_or.reduceat(bit, first)
