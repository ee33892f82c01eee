"""Rows of data files with new values in some columns, written into new files (UPDATE)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import binaries, bools, flags_of, int64s, numbers_of
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.copying import COPIED_COLUMNS
from lakehouse_lib.engine.parquet.matching import shares
from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.engine.parquet.writer import write_stream
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.expressions import Value, values_of
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import check_rows

_ERROR = "error"
#: A files table, and the pickled error of a task that wrote no files.
UPDATED_SCHEMA = pa.schema([*[field.with_nullable(True) for field in FILE_SCHEMA], pa.field(_ERROR, pa.binary())])


@dataclass(frozen=True)
class UpdateTask:
    """A task that writes the matching rows of files with new values.

    Attributes:
        target: the table.
        files: COPIED_COLUMNS of the files.
        positions: the positions of matching rows in each file, as in MATCHES_SCHEMA.
        values: the new values by column, as the schema spells it.
    """

    target: WriteTarget
    files: pa.Table
    positions: pa.ChunkedArray
    values: Mapping[str, Value]


def update_tasks(
    target: WriteTarget, files: pa.Table, matches: pa.Table, values: Mapping[str, Value], parallelism: int
) -> list[UpdateTask]:
    """Update tasks for files, in shares of about equal size.

    Args:
        files: a files table.
        matches: a table of MATCHES_SCHEMA with the same files in the same order.
    """
    read = files.select([*COPIED_COLUMNS])
    return [
        UpdateTask(target, read.take(int64s(rows)), matches["positions"].take(int64s(rows)), values)
        for rows in shares(numbers_of(files["size"], np.int64), parallelism)
    ]


def updated_files(engine: Engine, tasks: Sequence[UpdateTask], target: WriteTarget) -> pa.Table:
    """Run update tasks on an engine; returns the files table of the files that they wrote.

    Raises:
        DeltaError: the error of a task. The files of all tasks are deleted.
    """
    results = engine.run(update_rows, tasks)
    files = results.filter(pc.is_valid(results["path"])).select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
    errors = results[_ERROR].drop_null()
    if len(errors):
        with suppress(DeltaError):  # the error of the task is reported; vacuum deletes the files
            target.store.delete_many(file_paths.decode_all(files["path"], target.store).to_pylist())
        error: DeltaError = pickle.loads(errors[0].as_py())  # noqa: S301 - written by a task of this call
        raise error
    return files


def update_rows(task: UpdateTask) -> pa.Table:
    """Run an update task; returns the files table of the files that it wrote, or its error (UPDATED_SCHEMA).

    Rows that a deletion vector hides are not updated. Updated rows keep their row id, and get the version of the commit
    as row commit version.
    """
    target = task.target
    try:
        files = write_stream(check_rows(_updated(task), target.rules, table=target.store.root), target)
    except DeltaError as error:
        nulls = [pa.nulls(1, field.type) for field in FILE_SCHEMA]
        return pa.Table.from_arrays([*nulls, binaries([pickle.dumps(error)])], schema=UPDATED_SCHEMA)
    return pa.Table.from_arrays([*files.columns, pa.nulls(len(files), pa.binary())], schema=UPDATED_SCHEMA)


def _updated(task: UpdateTask) -> Iterator[pa.RecordBatch]:
    target, schema = task.target, task.target.layout.schema
    reader = TableReader(target.store, target.layout, schema)
    for rows in matching_rows(reader, task.files, task.positions):
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        columns |= values_of(task.values, rows, schema, table=target.store.root)
        if target.layout.row_ids is not None:
            columns[target.layout.row_ids.versions] = pa.nulls(len(rows), pa.int64())
        yield from pa.table(columns).to_batches()


def matching_rows(
    reader: TableReader, files: pa.Table, positions: Sequence[pa.Scalar] | pa.ChunkedArray
) -> Iterator[pa.Table]:
    """The live rows of files at some positions, one row group at a time.

    Args:
        files: COPIED_COLUMNS of the files.
        positions: the positions in each file, as in MATCHES_SCHEMA.
    """
    constants = reader.constants(files)
    ids = FileIds.of(files) if reader.layout.row_ids is not None else [None] * len(files)
    for index, path in enumerate(files["path"].to_pylist()):
        values = {name: column[index] for name, column in constants.items()}
        chosen = BitMap64.deserialize(positions[index].as_py())
        with reader.open(path, files["deletionVector"][index].as_py(), ids[index]) as file:
            for group in range(file.num_row_groups):
                mask = _chosen_mask(file, group, chosen)
                if mask.any():
                    yield reader.row_group(file, group, values).filter(bools(mask))


def _chosen_mask(file: DataFile, group: int, chosen: BitMap64) -> NDArray[np.bool_]:
    """Which live rows of a row group are chosen."""
    start, count = file.starts[group], file.metadata.row_group(group).num_rows
    window = BitMap64()
    window.add_range(start, start + count)
    mask = np.zeros(count, np.bool_)
    mask[deletion_vector.positions(chosen & window) - start] = True
    live = file.live_mask(group)
    return mask if live is None else mask[flags_of(live)]
