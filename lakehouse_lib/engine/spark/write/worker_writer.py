"""Writing of a DataFrame by the library's writer in Spark's Python workers: one put per file, without renames.

Spark's own writer renames each file, which in an object store is a copy and a delete. If a task fails or is repeated,
no commit refers to the files of its other attempts, so no reader sees these files. Workers receive rows as Arrow
batches.
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
    """A DataFrame of RESULTS; collecting it writes ``frame``, which has the table's columns, into data files."""
    layout = target.layout
    frame = frame.select(*map(quoted, (*layout.data_columns.names, *layout.partition_columns)))
    if layout.partition_columns:
        # Spark's own writer also sorts. Without the sort, the rows of a partition would come in many small pieces.
        frame = frame.sortWithinPartitions(*map(quoted, layout.partition_columns))
    return frame.mapInArrow(partial(write_rows, target), RESULTS)


def write_rows(target: WriteTarget, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task into data files, on a worker; yields a row of RESULTS."""
    try:
        written = write_stream(align_batches(batches, target.layout.schema, table=target.store.root), target)
    except DeltaError as error:
        yield failure(0, error)
        return
    if len(written):
        yield result(0, written)
