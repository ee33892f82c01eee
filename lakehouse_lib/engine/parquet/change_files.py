"""Change files: copies of changed rows, each with its kind of change (PROTOCOL.md, Change Data Files).

Rows are copied from data files. Deleted rows, and rows before an update, are copied from the files of the read version.
Inserted rows, and rows after an update, are copied from the new files. So the change files have the same values as the
data files, and do not depend on the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s, literal, numbers_of
from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.matching import MATCHES_SCHEMA, rows_at, shares
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of, results_of
from lakehouse_lib.engine.parquet.writer import write_stream
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA, FILE_SCHEMA
from lakehouse_lib.schema import CHANGE_TYPE, Field, Schema, check_feed_names

#: The values of the column ``_change_type``.
ChangeType = Literal["insert", "update_preimage", "update_postimage", "delete"]

#: Changed rows, by file: the kind of their change, and their positions in the file, as in MATCHES_SCHEMA. Null means
#: all positions. Rows that the deletion vector of the file hides do not count as changed.
CHANGED_ROWS_SCHEMA = pa.schema(
    [
        pa.field("change", pa.string(), nullable=False),
        *(FILE_SCHEMA.field(name) for name in ("path", "partitionValues", "size", "deletionVector")),
        pa.field("positions", pa.binary()),
    ]
)

_TEXT = pa.string()
#: A task copies rows of files with at least this many bytes, so that a small change has one change file.
_LEAST_TASK_BYTES = 16 << 20


@dataclass(frozen=True)
class ChangeFileTask:
    """A task that copies changed rows (CHANGED_ROWS_SCHEMA) into change files.

    Attributes:
        target: the result of ``change_target``.
        changed: a table of CHANGED_ROWS_SCHEMA.
    """

    target: WriteTarget
    changed: pa.Table


def changed_rows(change: ChangeType, files: pa.Table, matches: pa.Table | None = None) -> pa.Table:
    """The changed rows of files, as CHANGED_ROWS_SCHEMA.

    Args:
        files: a files table.
        matches: the changed rows (MATCHES_SCHEMA) of some of these files; None: all rows of all files.
    """
    positions = pa.nulls(len(files), pa.binary())
    if matches is not None:
        files = files.take(pc.index_in(matches["source"].combine_chunks(), files["path"].combine_chunks()))
        positions = matches["positions"].cast(MATCHES_SCHEMA.field("positions").type)
    columns = {
        "change": pa.repeat(literal(change, _TEXT), len(files)),
        **{name: files[name] for name in ("path", "partitionValues", "size", "deletionVector")},
        "positions": positions,
    }
    return pa.Table.from_arrays(list(columns.values()), schema=CHANGED_ROWS_SCHEMA)


def change_target(target: WriteTarget) -> WriteTarget:
    """The target of change files of a table.

    Raises:
        InvalidSchemaError: the table has a column with the name of one of the feed's columns.
    """
    schema = target.layout.schema
    check_feed_names(schema, table=target.store.root)
    layout = replace(target.layout, schema=Schema([*schema.fields, Field(CHANGE_TYPE, "string")]), row_ids=None)
    return replace(target, layout=layout, data_change=False, rules=(), is_change_data=True)


def write_change_files(engine: Engine, changed: pa.Table, target: WriteTarget) -> pa.Table:
    """Copy changed rows (CHANGED_ROWS_SCHEMA) into change files; returns CHANGE_FILE_SCHEMA.

    Args:
        target: the target of the table's data files.

    Raises:
        InvalidSchemaError: the table has a column with the name of one of the feed's columns.
        DeltaError: the error of a task. The files of all tasks are deleted.
    """
    target = change_target(target)
    sizes = numbers_of(changed["size"], np.int64)
    total = int(sizes.sum())
    count = max(1, min(engine.parallelism, total // _LEAST_TASK_BYTES))
    tasks = [ChangeFileTask(target, changed.take(int64s(rows))) for rows in shares(sizes, count, least=total)]
    if not tasks:
        return pa.Table.from_batches([], CHANGE_FILE_SCHEMA)
    written = results_of(engine.run(copy_changed_rows, tasks), partial(delete_files, store=target.store))
    return pa.concat_tables(written).select(CHANGE_FILE_SCHEMA.names).cast(CHANGE_FILE_SCHEMA)


def copy_changed_rows(task: ChangeFileTask) -> pa.Table:
    """Run a task; its result is the files table of the change files (RESULT_SCHEMA)."""
    return result_of(lambda: write_stream(_rows(task), task.target))


def _rows(task: ChangeFileTask) -> Iterator[pa.Table]:
    schema = Schema([field for field in task.target.layout.schema.fields if field.name != CHANGE_TYPE])
    reader = TableReader(task.target.store, task.target.layout, schema)
    for index, change in enumerate(task.changed["change"].to_pylist()):
        file = task.changed.slice(index, 1)
        for rows in rows_at(reader, file, file["positions"].to_pylist()):
            yield rows.append_column(CHANGE_TYPE, pa.repeat(literal(change, _TEXT), len(rows)))
