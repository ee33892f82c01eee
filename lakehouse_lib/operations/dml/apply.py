"""Remove rows from files: hide them by deletion vectors, or copy the remaining rows to new files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import binaries, bools, column, int64s, literal, numbers_of, strings
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA, positions_of, shares
from lakehouse_lib.engine.parquet.merge.sides import portions
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS, copy_reader
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of, results_of
from lakehouse_lib.engine.parquet.writer import DataFileWriter
from lakehouse_lib.engine.parquet.written_files import files_table
from lakehouse_lib.engine.writer_properties import WriterProperties
from lakehouse_lib.features.row_tracking import FileIds
from lakehouse_lib.operations.deletion_vector_writer import with_vectors
from lakehouse_lib.operations.files import discard_paths
from lakehouse_lib.operations.optimize.rewrite import rewrite_target
from lakehouse_lib.operations.optimize.z_order.tags import TAG_COLUMNS, copy_tags
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.threads import map_in_threads

_THREADS = 8
#: Approximate bytes of memory that a file needs besides the positions: an empty bitmap and other Python objects.
_BITMAP_BYTES = 16 << 10

#: One row per changed file: its log path, the number of rows that were deleted now, the number of remaining rows, and
#: the add action of its replacement (path null: no row remains).
APPLIED_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("deleted", pa.int64(), nullable=False),
        pa.field("remaining", pa.int64(), nullable=False),
        *[field.with_nullable(True) for field in FILE_SCHEMA],
    ]
)


@dataclass(frozen=True)
class CopyTask:
    """A task that copies files and leaves out their matching rows.

    Attributes:
        target: the table.
        files: COPIED_COLUMNS and TAG_COLUMNS of the files.
        positions: the positions of matching rows in each file, as in MATCHES_SCHEMA.
    """

    target: WriteTarget
    files: pa.Table
    positions: pa.ChunkedArray


def copy_files(
    snapshot: Snapshot,
    files: pa.Table,
    matches: pa.Table,
    engine: Engine,
    *,
    writer_properties: WriterProperties | None = None,
) -> pa.Table:
    """Copy files, and leave out matching rows and rows that deletion vectors hide. Returns APPLIED_SCHEMA.

    Args:
        files: files table of the snapshot.
        matches: a table of MATCHES_SCHEMA with the same files in the same order.

    Raises:
        DeltaError: the error of a task. The copies of all tasks are deleted.
    """
    if not len(files):
        return pa.Table.from_batches([], APPLIED_SCHEMA)
    target = rewrite_target(snapshot, data_change=True, writer_properties=writer_properties)
    copied = files.select([*COPIED_COLUMNS, *TAG_COLUMNS])
    tasks = [
        CopyTask(target, copied.take(int64s(rows)), matches["positions"].take(int64s(rows)))
        for rows in shares(numbers_of(files["size"], np.int64), engine.parallelism)
    ]
    return pa.concat_tables(
        results_of(engine.run(copy_rows, tasks), lambda results: delete_files(map(_copies, results), snapshot.store))
    )


def copy_rows(task: CopyTask) -> pa.Table:
    """Run a copy task. The result (RESULT_SCHEMA) holds a table of APPLIED_SCHEMA."""
    return result_of(lambda: _copy(task))


def _copy(task: CopyTask) -> pa.Table:
    target, reader = task.target, copy_reader(task.target)
    ids = FileIds.of(task.files) if target.layout.row_ids is not None else [None] * len(task.files)
    results: list[pa.Table] = []
    for index, file in enumerate(task.files.to_pylist()):
        with reader.open(file["path"], file["deletionVector"], ids[index]) as source:
            live = source.live_rows
            source.deleted = (source.deleted or BitMap64()) | BitMap64.deserialize(task.positions[index].as_py())
            remaining = source.live_rows
            values = dict(file["partitionValues"] or ())
            writer = DataFileWriter(target, {key: values.get(key) for key in target.layout.partition_keys.values()})
            try:
                for group in range(source.num_row_groups):
                    if source.live_rows_of(group):
                        writer.write(reader.row_group(source, group, {}))
                # The rows keep their order, so the copy is Z-ordered like its source.
                written = copy_tags(file, files_table(writer.finish(), data_change=True))
            except BaseException:
                writer.abort()
                delete_files(map(_copies, results), target.store)
                raise
        results.append(_results([file["path"]], [live - remaining], [remaining], written if remaining else _NO_FILE))
    return pa.concat_tables(results)


def _copies(applied: pa.Table) -> pa.Table:
    return applied.filter(applied["path"].is_valid())


def live_matches(files: pa.Table, matches: pa.Table, snapshot: Snapshot) -> tuple[pa.Table, int]:
    """The matches without rows that deletion vectors hide, as MATCHES_SCHEMA, and the number of these rows.

    Args:
        files: a files table that contains the files of ``matches``.
    """
    vectors = files["deletionVector"].take(
        pc.index_in(matches["source"].combine_chunks(), files["path"].combine_chunks())
    )
    count, results = 0, [pa.Table.from_batches([], MATCHES_SCHEMA)]
    for start, rows in _portions(matches):
        part, hidden = matches.slice(start, rows), vectors.slice(start, rows)
        live = positions_of(part)
        if hidden.null_count < len(hidden):
            hidden_rows = map_in_threads(
                lambda vector: deletion_vector.load(snapshot.store, vector), hidden.to_pylist(), _THREADS
            )
            live = [positions - deleted for positions, deleted in zip(live, hidden_rows, strict=True)]
            part = part.set_column(2, MATCHES_SCHEMA.field(2), binaries([each.serialize() for each in live]))
            part = part.filter(bools([bool(each) for each in live]))
        count += sum(map(len, live))
        results.append(part)
    return pa.concat_tables(results), count


def mark_rows(files: pa.Table, matches: pa.Table, store: ObjectStore) -> pa.Table:
    """Hide the matching rows by deletion vectors. Returns APPLIED_SCHEMA for the files with newly hidden rows.

    The files are changed in portions, so that about 64 MiB of bitmaps are in memory at a time. After an error, the new
    vectors are deleted.

    Args:
        files: a files table.
        matches: a table of MATCHES_SCHEMA with the same files in the same order.
    """
    results = [pa.Table.from_batches([], APPLIED_SCHEMA)]
    try:
        for part in _portions(matches):
            results.append(_mark_portion(files.slice(*part), matches.slice(*part), store))
    except BaseException:
        discard_paths(store, deletion_vector.paths_of(store, pa.concat_tables(results)["deletionVector"]))
        raise
    return pa.concat_tables(results)


def _portions(matches: pa.Table) -> Iterator[tuple[int, int]]:
    """The offset and the number of rows of ``matches`` of each portion, which has about 64 MiB of bitmaps."""
    sizes = numbers_of(pc.binary_length(matches["positions"]), np.int32).astype(np.int64) + _BITMAP_BYTES
    for part in portions(sizes):
        yield part.start, part.stop - part.start


def _mark_portion(files: pa.Table, matches: pa.Table, store: ObjectStore) -> pa.Table:
    old_vectors = map_in_threads(
        lambda vector: deletion_vector.load(store, vector), files["deletionVector"].to_pylist(), _THREADS
    )
    changed, deleted, remaining, vectors = [], [], [], []
    counts = matches["rows"].to_pylist()
    for index, (hidden, positions) in enumerate(zip(old_vectors, positions_of(matches), strict=True)):
        vector = hidden | positions
        if len(vector) > len(hidden):
            changed.append(index)
            deleted.append(len(vector) - len(hidden))
            remaining.append(counts[index] - len(vector))
            vectors.append(vector)
    before = files.take(int64s(changed))
    after = with_vectors(before, vectors, [counts[index] for index in changed], store)
    is_change = pa.repeat(literal(True, pa.bool_()), len(after))
    after = after.set_column(after.column_names.index("dataChange"), FILE_SCHEMA.field("dataChange"), is_change)
    row_numbers = iter(range(len(after)))
    places = column([next(row_numbers) if rows else None for rows in remaining], pa.int64())
    return _results(before["path"].to_pylist(), deleted, remaining, after.take(places))


def _results(sources: Sequence[str], deleted: Sequence[int], remaining: Sequence[int], files: pa.Table) -> pa.Table:
    columns = [strings(sources), int64s(deleted), int64s(remaining), *files.columns]
    return pa.Table.from_arrays(columns, schema=APPLIED_SCHEMA)


_NO_FILE = pa.Table.from_arrays([pa.nulls(1, field.type) for field in FILE_SCHEMA], FILE_SCHEMA.names)
