"""The writer of deletion vectors: stores them, and returns the file actions that refer to them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import column, int64s, strings
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.actions import DELETION_VECTOR
from lakehouse_lib.statistics import with_loose_bounds
from lakehouse_lib.store import ObjectStore


def with_vectors(files: pa.Table, vectors: Sequence[BitMap64], rows: Sequence[int], store: ObjectStore) -> pa.Table:
    """Write deletion vectors, and return the files with these vectors. Files without a remaining row are left out.

    Args:
        files: a files table.
        vectors: the new deletion vector of each file; an empty vector leaves the file unchanged.
        rows: the number of rows in each file, hidden rows included.
    """
    hidden = (vector for vector, count in zip(vectors, rows, strict=True) if 0 < len(vector) < count)
    saved = iter(deletion_vector.save(store, hidden))
    remaining, stats, descriptors = [], [], []
    old = zip(files["stats"].to_pylist(), files["deletionVector"].to_pylist(), strict=True)
    for index, ((text, descriptor), vector, count) in enumerate(zip(old, vectors, rows, strict=True)):
        if vector and len(vector) >= count:
            continue
        remaining.append(index)
        stats.append(with_loose_bounds(text, count) if vector else text)
        descriptors.append(next(saved) if vector else descriptor)
    columns = {"stats": strings(stats), "deletionVector": column(descriptors, DELETION_VECTOR)}
    remaining_files = files.take(int64s(remaining))
    return pa.Table.from_arrays(
        [columns.get(field.name, remaining_files[field.name]) for field in files.schema], schema=files.schema
    )
