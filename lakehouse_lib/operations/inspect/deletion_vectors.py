"""The deletion vectors of a version, as masks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa

from lakehouse_lib.engine.parquet.footer import read_footer
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics.bounds import num_records

#: The characters that are not percent-encoded in the path of a URI, besides letters, digits and ``_.-~``.
_UNQUOTED = "/!$&'()*+,;=:@"

#: The columns of ``deletion_vectors``.
SCHEMA = pa.schema(
    [
        pa.field("filepath", pa.large_string(), nullable=False),
        pa.field("selection_vector", pa.list_(pa.field("item", pa.bool_(), nullable=False)), nullable=False),
    ]
)


def deletion_vectors(snapshot: Snapshot) -> pa.RecordBatchReader:
    """One row for each live file that has a deletion vector, as SCHEMA.

    ``filepath`` is the URI of the file. ``selection_vector`` has one entry for each row of the file: false for a
    deleted row. A deletion vector, and the footer of a file without ``numRecords``, are read when the reader gets to
    this row.
    """
    files = snapshot.file_columns(["path", "stats", "deletionVector"])
    marked = files.filter(files["deletionVector"].is_valid())
    return pa.RecordBatchReader.from_batches(SCHEMA, _batches(snapshot, marked))


def _batches(snapshot: Snapshot, files: pa.Table) -> Iterator[pa.RecordBatch]:
    store = snapshot.store
    paths = file_paths.decode_all(files["path"], store)
    locations = file_paths.absolute(paths, store).to_pylist()
    counts = num_records(files)
    for index, descriptor in enumerate(files["deletionVector"].to_pylist()):
        path, location = paths[index].as_py(), locations[index]
        rows = counts[index].as_py()
        deleted = deletion_vector.load(store, descriptor)
        rows = read_footer(store, path).num_rows if rows is None else rows
        deletion_vector.check_rows(deleted, path, rows, table=store.root)
        mask = pa.ListArray.from_arrays(
            [0, rows], deletion_vector.live_row_mask(deleted, 0, rows), SCHEMA.field(1).type
        )
        uri = f"file://{quote(location, safe=_UNQUOTED)}" if location.startswith("/") else location
        yield pa.record_batch([pa.array([uri], pa.large_string()), mask], schema=SCHEMA)
