"""Deletion vectors on Spark: a join of a scan with a small table of its deleted rows.

Rows do not cross to Python. The table has columns (file, block, bits). A row of this table is called a *word*: its set
bits are the deleted rows among the rows ``64 * block`` to ``64 * block + 63`` of the file. A deleted row takes at most
16 bytes, and two bits if all rows of its file are deleted. Spark packs the two keys of the join into one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.threads import map_in_threads

_THREADS = 8
# A word takes about 50 bytes in Spark's hash table. Above this number, words are not broadcast to every executor.
_MOST_BROADCAST = 4_000_000
# numRecords counts physical rows; the protocol requires it for a file with a deletion vector.
_NUM_RECORDS = r'"numRecords"\s*:\s*(?P<rows>[0-9]{1,18})'
_BLOCK, _BITS = "__lakehouse_block", "__lakehouse_bits"


def without_deleted(spark: Any, frame: Any, files: pa.Table, store: ObjectStore, *, file: str, row: str) -> Any:
    """The rows of ``frame`` without those that deletion vectors delete.

    Args:
        files: a files table.
        file: the column of ``frame`` with the file of a row, as a row number of ``files``.
        row: the column of ``frame`` with the position of a row in its file.

    Raises:
        LogCorruptedError: a deletion vector differs from its description in the log, or does not fit its file.
        ObjectNotFoundError: a deletion vector is missing.
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
    """The words of all deletion vectors: file int32 (row number of ``files``), block int32, bits int64."""
    vectors = files["deletionVector"].combine_chunks()
    counts = pc.struct_field(pc.extract_regex(files["stats"].combine_chunks(), _NUM_RECORDS), "rows").cast(pa.int64())
    with_vector = np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))

    def words(index: np.int64) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        bitmap = deletion_vector.load(store, vectors[int(index)].as_py())
        if counts[index].is_valid:
            path = files["path"][int(index)].as_py()
            deletion_vector.check_rows(bitmap, path, counts[index].as_py(), table=store.root)
        return _words(deletion_vector.positions(bitmap))

    numbers: list[npt.NDArray[np.int32]] = []
    blocks: list[npt.NDArray[np.int32]] = []
    bits: list[npt.NDArray[np.int64]] = []
    for index, (block, word) in zip(with_vector, map_in_threads(words, with_vector, _THREADS), strict=True):
        numbers.append(np.full(len(block), index, dtype=np.int32))
        blocks.append(block)
        bits.append(word)
    columns = [
        pa.array(np.concatenate([np.empty(0, kind), *parts]).astype(kind))
        for kind, parts in ((np.int32, numbers), (np.int32, blocks), (np.int64, bits))
    ]
    return pa.table(columns, names=["file", "block", "bits"])


def _words(positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The words of ascending positions: the numbers of their blocks of 64 rows, and the bits of each block."""
    if not len(positions):
        return np.empty(0, np.int32), np.empty(0, np.int64)
    block = (positions >> 6).astype(np.int32)
    bit = np.int64(1) << (positions & 63)
    first = np.flatnonzero(np.r_[True, block[1:] != block[:-1]])
    return block[first], np.bitwise_or.reduceat(bit, first)
