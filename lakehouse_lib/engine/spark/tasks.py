"""Functions that run in Spark's Python workers; they do not import pyspark.

A ``DeltaError`` of a task is returned to the driver as a value and raised there. Other errors are raised in the worker,
so that Spark retries the task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.streams import rows_of, stream_of
from lakehouse_lib.arrow.values import column, int64s
from lakehouse_lib.engine.base import Piece
from lakehouse_lib.errors import DeltaError

#: Spark schema of a task's result: an Arrow IPC stream, or a pickled DeltaError.
RESULTS = "position int, result binary, error binary"
#: Spark schema of a piece. Rows of order GROUP_ROW contain the task of a group, rows of order ERROR_ROW an error.
PIECES = "group int, ord long, task int, position int, data binary, error binary"
GROUP_ROW, ERROR_ROW = -2, -1

_RESULT_SCHEMA = pa.schema([("position", pa.int32()), ("result", pa.binary()), ("error", pa.binary())])
_PIECE_SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("ord", pa.int64()),
        ("task", pa.int32()),
        ("position", pa.int32()),
        ("data", pa.binary()),
        ("error", pa.binary()),
    ]
)


def run_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run tasks on a worker, for ``Engine.run``: takes rows (position, task, partition), yields RESULTS."""
    for batch in batches:
        for position, payload in zip(_ints(batch, 0), _blobs(batch, 1), strict=True):
            # Written by the driver of this job, never read from storage.
            function, task = pickle.loads(payload)  # noqa: S301
            try:
                yield result(position, function(task))
            except DeltaError as error:
                yield failure(position, error)


def scatter_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run scatter tasks on a worker: takes rows (position, task, partition), yields PIECES."""
    for batch in batches:
        for number, payload in zip(_ints(batch, 0), _blobs(batch, 1), strict=True):
            scatter, task = pickle.loads(payload)  # noqa: S301
            try:
                for position, piece in enumerate(scatter(task)):
                    yield _piece(piece.group, piece.order, number, position, stream_of(piece.rows), None)
            except DeltaError as error:
                yield _piece(0, ERROR_ROW, number, 0, None, pickle.dumps(error))


def gather_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run gather tasks on a worker: takes PIECES sorted by group and order, yields RESULTS."""
    for group, rows in groupby(_piece_rows(batches), key=lambda row: row[0]):
        gather = task = None
        first: tuple[int, int, pa.Buffer, bytes | None] | None = None
        for row in rows:
            if row[1] == GROUP_ROW:
                gather, task = pickle.loads(row[2])  # noqa: S301
            elif row[3] is not None:
                yield _result_batch(group, None, row[3])
                return
            else:
                first = row
                break
        if first is None or gather is None:
            continue
        pieces = (Piece(group, order, rows_of(data)) for _, order, data, _ in _chain(first, rows))
        try:
            yield result(group, gather(task, pieces))
        except DeltaError as error:
            yield failure(group, error)


def group_rows(payloads: Sequence[bytes]) -> pa.Table:
    """The gather tasks as rows of PIECES."""
    count = len(payloads)
    return pa.table(
        [
            pa.array(range(count), pa.int32()),
            pa.array([GROUP_ROW] * count, pa.int64()),
            pa.array([0] * count, pa.int32()),
            pa.array([0] * count, pa.int32()),
            pa.array(payloads, pa.binary()),
            pa.nulls(count, pa.binary()),
        ],
        schema=_PIECE_SCHEMA,
    )


def _chain(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def _piece_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer, bytes | None]]:
    for batch in batches:
        groups, orders = _ints(batch, 0), _ints(batch, 1)
        errors = batch.column(5)
        for index, data in enumerate(_buffers(batch, 4)):
            error = errors[index].as_py() if errors[index].is_valid else None
            yield groups[index], orders[index], data, error


def _ints(batch: pa.RecordBatch, index: int) -> list[int]:
    values: list[int] = batch.column(index).to_pylist()  # to_numpy would import pandas
    return values


def _blobs(batch: pa.RecordBatch, index: int) -> list[bytes]:
    return [buffer.to_pybytes() for buffer in _buffers(batch, index)]


def _buffers(batch: pa.RecordBatch, index: int) -> list[pa.Buffer]:
    array = batch.column(index)
    return [value.as_buffer() or pa.py_buffer(b"") for value in array]


def result(position: int, table: pa.Table) -> pa.RecordBatch:
    """The row of RESULTS for a task's result."""
    return _result_batch(position, stream_of(table), None)


def failure(position: int, error: DeltaError) -> pa.RecordBatch:
    """The row of RESULTS for a task's error."""
    return _result_batch(position, None, pickle.dumps(error))


def _result_batch(position: int, result: pa.Buffer | None, error: bytes | None) -> pa.RecordBatch:
    columns = [column([position], pa.int32()), _blob(result), _blob(error)]
    return pa.RecordBatch.from_arrays(columns, schema=_RESULT_SCHEMA)


def _piece(
    group: int, order: int, task: int, position: int, data: bytes | pa.Buffer | None, error: bytes | None
) -> pa.RecordBatch:
    columns = [
        column([group], pa.int32()),
        int64s([order]),
        column([task], pa.int32()),
        column([position], pa.int32()),
        _blob(data),
        _blob(error),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_PIECE_SCHEMA)


# Made from buffers: the first pa.array(list) in a worker would import pandas, which takes a second.
def _blob(value: bytes | pa.Buffer | None) -> pa.Array:
    if value is None:
        return pa.nulls(1, pa.binary())
    data = value if isinstance(value, pa.Buffer) else pa.py_buffer(value)
    offsets = pa.py_buffer(np.array([0, data.size], dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
