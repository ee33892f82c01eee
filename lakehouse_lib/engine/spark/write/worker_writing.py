"""A DataFrame written by the library's own writer in Spark's Python workers: one put a file, straight to its place.

Spark's own writer ends with a rename, which in an object store is a copy and a deletion of every file. A file of a task
that died, or that ran twice, is named by no commit, so no reader sees it. Rows come to the workers as Arrow batches, by
column.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.writer import write_stream
from lakehouse_lib.engine.spark.tasks import RESULTS, failure, result
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.schema import align_batches
from lakehouse_lib.schema.quoting import quoted


def files_of(frame: Any, target: WriteTarget) -> Any:
    """Write the DataFrame, which has the table's columns, once it is collected: RESULTS, a row a task that had rows."""
    layout = target.layout
    frame = frame.select(*map(quoted, (*layout.data_columns.names, *layout.partition_columns)))
    if layout.partition_columns:
        # Spark's own writer does, too: else each partition's rows come in many small pieces.
        frame = frame.sortWithinPartitions(*map(quoted, layout.partition_columns))
    return frame.mapInArrow(partial(write_rows, target), RESULTS)


def write_rows(target: WriteTarget, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the rows of one task into data files."""
    try:
        written = write_stream(align_batches(batches, target.layout.schema, table=target.store.root), target)
    except DeltaError as error:
        yield failure(0, error)
        return
    if len(written):
        yield result(0, written)
