"""Write rejected rows to data files of the quarantine, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.task_results import delete_files
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.protocol.actions import FILE_SCHEMA

#: Rows are written to a file when they take this many bytes of memory.
_PENDING_BYTES = 64 << 20


class RejectedRows:
    """Writes the rejected rows of a task, with the columns ``names``, to files. No version refers to the files."""

    def __init__(self, target: WriteTarget, names: Sequence[str]) -> None:
        self.rows = 0
        self._target = target
        self._names = names
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._files: list[pa.Table] = [pa.Table.from_batches([], FILE_SCHEMA)]

    def add(self, rows: pa.Table) -> None:
        """Add rows; they may be written now or later."""
        if not len(rows):
            return
        self.rows += len(rows)
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= _PENDING_BYTES:
            self._write()

    def finish(self) -> pa.Table:
        """Write the pending rows; returns the files table of all files."""
        if self._pending:
            self._write()
        return pa.concat_tables(self._files)

    def abort(self) -> None:
        """Delete the written files."""
        delete_files(self._files, self._target.store)

    def _write(self) -> None:
        batches = pa.concat_tables(self._pending).combine_chunks().to_batches()
        self._pending, self._pending_bytes = [], 0
        self._files.append(write_rows(batches, self._names, self._target))
