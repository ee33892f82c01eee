"""The task that loads or rejects the rows that file tasks have set apart. It runs after the whole batch was judged.

The counts of the batch decide which rules are broken. Rows that break such a rule go to the quarantine, and all others
are written to data files. If the suite has key rules, all valid rows are set apart, and the keys that the batch refuses
(``batches.keys``) go to the quarantine, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, int64s, literal, strings
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.ingestion.change_events.stored_rows import positions
from lakehouse_lib.ingestion.file_part import PartLines
from lakehouse_lib.ingestion.gate import Translation, violations
from lakehouse_lib.ingestion.quarantine import LINE_COLUMN, RULES_COLUMN, broken_rows, quarantine_schema
from lakehouse_lib.ingestion.tasks.file_task import FileTask, TaskResult, no_files
from lakehouse_lib.ingestion.tasks.rejected_rows import RejectedRows


@dataclass(frozen=True)
class ApartTask:
    """Rows that a file task has set apart.

    Attributes:
        task: the file task.
        path: the path of the file with the rows.
        broken: the positions of the broken rules in the suite's row rules.
        lines: the number of lines before each part of the batch's files.
        rounds: for each round of the batch (``batches.keys``), the keys that it refuses, without duplicates: a table
            for each key rule of the suite. Empty: the suite has no key rules.
        rejects: the round whose rejected rows are written; None: no rejected rows are written. The rows that break the
            rules ``broken`` are rejected in round 0.
        loads: whether the rows that pass are written.
    """

    task: FileTask
    path: str
    broken: Sequence[int]
    lines: PartLines = field(default_factory=PartLines)
    rounds: Sequence[Sequence[pa.Table]] = ()
    rejects: int | None = 0
    loads: bool = True


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
        if task.loads:
            files = write_rows(passing(), of_file.parser.schema.names, of_file.target)
        else:
            for _ in _passing(task, rejected):
                pass
        quarantined = rejected.finish()
    except BaseException:
        rejected.abort()
        delete_files([files], of_file.target.store)
        raise
    return TaskResult(files, quarantined, rows, rejected.rows)


def _passing(task: ApartTask, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
    """The rows that pass; the rows of the round ``task.rejects`` are added to ``rejected``."""
    of_file, suite = task.task, task.task.parser.suite
    assert suite is not None
    schema = of_file.parser.schema
    with of_file.target.store.open_input(task.path) as source:
        for batch in _blocks(pq.ParquetFile(source)):
            broken = violations(suite.row_rules, batch.column(RULES_COLUMN), task.broken)
            breaks = flags_of(pc.greater(pc.list_value_length(broken), literal(0, pa.int32())))
            rounds = np.where(breaks, 0, len(task.rounds) if task.rounds else 1)
            for number in reversed(range(len(task.rounds))):
                refused = _refused(suite, task.rounds[number], batch)
                rounds[refused.any(axis=1) & ~breaks] = number
                if number == task.rejects:
                    broken = pc.if_else(pa.array(breaks), broken, _key_violations(suite, refused))
            failing = int64s([] if task.rejects is None else np.flatnonzero(rounds == task.rejects))
            if len(failing):
                rows = task.lines.placed(batch.take(failing), LINE_COLUMN)
                rejected.add(broken_rows(schema, of_file.source, of_file.batch, rows, broken.take(failing)))
            passes = np.flatnonzero(rounds == (len(task.rounds) or 1))
            yield batch.take(int64s(passes)).select(schema.names)


def _blocks(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """The rows in the blocks in which they were set apart, because each block fits into memory."""
    for number in range(file.num_row_groups):
        yield from file.read_row_group(number).combine_chunks().to_batches()


def _refused(suite: Translation, keys: Sequence[pa.Table], batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """For each row and each key rule, whether the row has one of the refused keys of the rule."""
    rows = pa.Table.from_batches([batch])
    pairs = zip(suite.key_rules, keys, strict=True)
    return np.stack([positions(rows, refused, list(rule.columns)) >= 0 for rule, refused in pairs], axis=1)


def _key_violations(suite: Translation, refused: NDArray[np.bool_]) -> pa.Array:
    """The key rules that refuse each row, in the form of ``gate.violations``."""
    ids = strings([rule.rule.id for rule in suite.key_rules])
    columns = strings([rule.rule.column for rule in suite.key_rules])
    entries = pa.StructArray.from_arrays([columns, ids, ids], names=["column", "reason", "rule"])
    ends = np.concatenate([[0], np.cumsum(refused.sum(axis=1))]).astype(np.int32)
    offsets = pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(ends)])
    return pa.ListArray.from_arrays(offsets, entries.take(int64s(np.nonzero(refused)[1])))
