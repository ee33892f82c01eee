"""Add files to the log again with other values in their ``add`` actions, such as statistics. No row changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools
from lakehouse_lib.errors import CommitFailedError, ConcurrentDeleteReadError
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.operations.table_change import TableChange
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction import OptimisticTransaction


@dataclass
class FileUpdate:
    """The ``Change`` that adds files again. Files that a winning commit removes or changes are left out.

    Attributes:
        operation, parameters: operation and operationParameters of commitInfo.
        files: the files (FILE_SCHEMA) with their new values. After a conflict, files are left out.
        predicate: the read predicate of the transaction, which all rows of the files match; None: the whole table.
        started: the verb's ``time.monotonic()``.
    """

    operation: str
    parameters: Mapping[str, Any]
    files: pa.Table
    predicate: Predicate | None = None
    started: float = field(default_factory=time.monotonic)

    replans = (ConcurrentDeleteReadError,)

    def plan(self, snapshot: Snapshot, lost: CommitFailedError | None) -> OptimisticTransaction | None:
        if lost is not None:
            alive = file_keys(snapshot.file_columns(KEY_COLUMNS), snapshot.store)
            keys = file_keys(self.files.select(KEY_COLUMNS), snapshot.store)
            self.files = self.files.filter(pc.is_in(keys, value_set=alive))
        if not len(self.files):
            return None
        return TableChange(
            self.operation,
            self.parameters,
            added=without_data_change(self.files),
            reads=(self.predicate,),
            keeps_row_ids=True,
            metrics=self.metrics(),
        ).on(snapshot, snapshot.store)

    def discard(self, *, committed: bool) -> None:
        """No file was written."""

    def metrics(self) -> Mapping[str, Any]:
        elapsed = int((time.monotonic() - self.started) * 1000)
        return {"numUpdatedFiles": len(self.files), "executionTimeMs": elapsed}


def without_data_change(files: pa.Table) -> pa.Table:
    """The files with ``dataChange`` false."""
    index = files.column_names.index("dataChange")
    return files.set_column(index, FILE_SCHEMA.field("dataChange"), bools([False] * len(files)))
