"""The task that writes the rejected rows of a file's part, when the lines before the part are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.engine.parquet.task_results import result_of
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.ingestion.file_part import PartLines
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.ingestion.tasks.file_task import FileTask, TaskResult


@dataclass(frozen=True)
class PartRejects:
    """Rejected rows that the task of a part has staged.

    Attributes:
        task: the file task.
        path: the path of the rows.
        lines: the lines before each part.
    """

    task: FileTask
    path: str
    lines: PartLines


def write_rejects(task: PartRejects) -> pa.Table:
    """Run a task; the result is a ``TaskResult`` (RESULT_SCHEMA) that counts no row: the file task has counted them."""
    return result_of(lambda: _written(task))


def _written(task: PartRejects) -> TaskResult:
    names = quarantine_schema(task.task.parser.schema).names
    return TaskResult(quarantined=write_rows(_placed(task), names, task.task.quarantine))


def _placed(task: PartRejects) -> Iterator[pa.RecordBatch]:
    with task.task.target.store.open_input(task.path) as source:
        for batch in pq.ParquetFile(source).iter_batches():
            yield task.lines.placed(batch, "_line")
