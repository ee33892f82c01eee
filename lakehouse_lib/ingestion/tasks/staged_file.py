"""Staged rows: Parquet files beside the table that no table refers to. They are deleted when their batch ends."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.arrow.nested import with_types
from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.store import ObjectStore


class StagedFile:
    """A file of staged rows, opened when the first rows are written; a context manager that closes it."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._stack = ExitStack()
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def path(self) -> str | None:
        """The path of the file; None: no rows were written."""
        return None if self._writer is None else self._path

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows; all of them have one schema."""
        if not rows.num_rows:
            return
        # Members that must not be null are null in a null struct, which a Parquet writer refuses.
        schema = nullable(rows.schema)
        if self._writer is None:
            stream = self._stack.enter_context(self._store.open_output(self._path))
            self._writer = self._stack.enter_context(pq.ParquetWriter(stream, schema, compression="snappy"))
        self._writer.write_table(with_types(pa.Table.from_batches([rows]), schema))
