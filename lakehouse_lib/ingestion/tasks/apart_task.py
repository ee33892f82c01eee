"""The task that decides about rows that were set apart, when the whole batch is judged.

The counts of the batch decide which rules are broken. Rows that break such a rule go to the quarantine, and all others
are written to data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.arrow.values import flags_of, int64s, literal
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.ingestion.gate import violations
from lakehouse_lib.ingestion.quarantine import RULES_COLUMN, broken_rows, quarantine_schema
from lakehouse_lib.ingestion.tasks.file_task import FileTask, TaskResult, no_files
from lakehouse_lib.ingestion.tasks.rejected_rows import RejectedRows

_ROWS = 1 << 16


@dataclass(frozen=True)
class ApartTask:
    """Rows that a file task has set apart.

    Attributes:
        task: the file task.
        path: the path of the rows.
        broken: the positions of the broken rules.
    """

    task: FileTask
    path: str
    broken: Sequence[int]


def settle_rows(task: ApartTask) -> pa.Table:
    """Run a task; the result is a ``TaskResult`` (RESULT_SCHEMA)."""
    return result_of(lambda: _settle(task))


def _settle(task: ApartTask) -> TaskResult:
    of_file = task.task
    rejected = RejectedRows(of_file.quarantine, quarantine_schema(of_file.parser.schema).names)
    rows, files = 0, no_files()

    def passing() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in _passing(task, rejected):
            rows += batch.num_rows
            yield batch

    try:
        files = write_rows(passing(), of_file.parser.schema.names, of_file.target)
        quarantined = rejected.finish()
    except BaseException:
        rejected.abort()
        delete_files([files], of_file.target.store)
        raise
    return TaskResult(files, quarantined, rows, rejected.rows)


def _passing(task: ApartTask, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
    """The rows that break none of the rules ``task.broken``; the others are added to ``rejected``."""
    of_file, suite = task.task, task.task.parser.suite
    assert suite is not None
    schema = of_file.parser.schema
    with of_file.target.store.open_input(task.path) as source:
        for batch in pq.ParquetFile(source).iter_batches(_ROWS):
            broken = violations(suite.row_rules, batch.column(RULES_COLUMN), task.broken)
            passes = flags_of(pc.equal(pc.list_value_length(broken), literal(0, pa.int32())))
            failing = int64s(np.flatnonzero(~passes))
            if len(failing):
                rows = batch.take(failing)
                rejected.add(broken_rows(schema, of_file.source, of_file.batch, rows, broken.take(failing)))
            yield batch.take(int64s(np.flatnonzero(passes))).select(schema.names)
