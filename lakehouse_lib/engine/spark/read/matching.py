"""The positions of rows that match a condition which only Spark can evaluate.

Rows do not cross to Python: Spark returns one word for 64 rows of a file, with the bits of matching rows set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.values import numbers_of
from lakehouse_lib.engine.parquet.footer import read_footer
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA, matches_table
from lakehouse_lib.engine.spark import columns as spark_columns
from lakehouse_lib.engine.spark.read.reading import FILE, ROW, parts
from lakehouse_lib.expressions import Predicate, to_spark_sql
from lakehouse_lib.protocol.deletion_vector import bitmap_of
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.threads import map_in_threads

_THREADS = 8
_BLOCK, _BITS = "__lakehouse_block", "__lakehouse_bits"


def matching_rows(spark: Any, snapshot: Snapshot, files: pa.Table, predicate: Predicate) -> pa.Table:
    """The positions of rows in ``files`` for which the predicate is true, as MATCHES_SCHEMA.

    Rows that deletion vectors hide are included.

    Raises:
        UnsupportedFeatureError: Spark cannot read the type of a column.
        StoreError: Spark could not evaluate the condition.
    """
    from pyspark.sql import functions as F

    schema = snapshot.layout.columns(sorted(predicate.columns))
    spark_columns.check_types(schema, table=snapshot.store.root, version=snapshot.version)
    results = [pa.Table.from_batches([], MATCHES_SCHEMA)]
    sources = files.append_column("source", files["path"])
    for part, group_files in parts(spark, snapshot, schema, sources):
        bit_number = F.col(ROW).bitwiseAND(F.lit(63)).cast("int")
        bit = F.call_function("shiftleft", F.lit(1).cast("long"), bit_number)
        matching = part.placed(group_files).where(to_spark_sql(predicate))
        words = matching.groupBy(FILE, F.shiftright(ROW, 6).alias(_BLOCK)).agg(F.bit_or(bit).alias(_BITS))
        results.append(_matches(words.toArrow(), group_files, snapshot))
    return pa.concat_tables(results)


def _matches(words: pa.Table, files: pa.Table, snapshot: Snapshot) -> pa.Table:
    words = words.sort_by([(FILE, "ascending"), (_BLOCK, "ascending")])
    blocks, bits = numbers_of(words[_BLOCK], np.int64), numbers_of(words[_BITS], np.int64).astype("<i8")
    matched, firsts = np.unique(numbers_of(words[FILE], np.int32), return_index=True)
    chosen = files.take(pa.array(matched))
    positions = []
    for rows in map(slice, firsts, [*firsts[1:], len(words)]):
        is_set = np.unpackbits(bits[rows].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        positions.append(bitmap_of((blocks[rows][:, None] * 64 + np.arange(64))[is_set == 1]).serialize())
    counts = map_in_threads(
        lambda path: read_footer(snapshot.store, path).num_rows, chosen["path"].to_pylist(), _THREADS
    )
    return matches_table(chosen["source"].to_pylist(), list(counts), positions)
