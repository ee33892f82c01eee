"""The writer of deletion vectors: stores them, and returns the file actions that refer to them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.statistics import with_loose_bounds
from lakehouse_lib.store import ObjectStore


def with_vectors(files: pa.Table, vectors: Sequence[BitMap64], rows: Sequence[int], store: ObjectStore) -> pa.Table:
    """Write deletion vectors; returns the files with them. A file without a remaining row is left out.

    Args:
        files: a files table.
        vectors: the deletion vector of each file; an empty vector leaves the file unchanged.
        rows: the number of rows in each file, hidden rows included.
    """
    hidden = (vector for vector, count in zip(vectors, rows, strict=True) if 0 < len(vector) < count)
    descriptors = iter(deletion_vector.save(store, hidden))
    entries = []
    for file, vector, count in zip(files.to_pylist(), vectors, rows, strict=True):
        if not vector:
            entries.append(file)
        elif len(vector) < count:
            stats = with_loose_bounds(file["stats"], count)
            entries.append({**file, "stats": stats, "deletionVector": next(descriptors)})
    return pa.Table.from_pylist(entries, schema=files.schema)
