"""Count the rows for which a predicate is true, file by file, reading only the predicate's columns.

Live files are read as the table's schema says, without rows that deletion vectors name. Stored files are read by their
own schema (they may come from before a column was added or retyped, or from a writer that died) and with every row that
is in them: a deletion vector deletes nothing from the disk. A column that a file lacks is null in each of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.actions import FILE_SCHEMA
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.data_reader import TableReader, select
from lakehouse_lib.errors import DeltaError, ObjectNotFoundError
from lakehouse_lib.predicates import Predicate, matches, may_match, parse
from lakehouse_lib.privacy.stored_files import as_files
from lakehouse_lib.schema import DataType, Field, Schema, StructType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import StatisticsColumns, from_footer, leaves

#: What counting answers: the files asked for, with the matching rows; ``note`` says why a count is null (a file that
#: cannot be checked) or why it is 0 without a look at the rows (none of the columns).
COUNTED_SCHEMA = FILE_SCHEMA.append(pa.field("matches", pa.int64())).append(pa.field("note", pa.string()))

_TASKS_A_THREAD = 4


@dataclass(frozen=True)
class CountTask:
    """Count in these files (FILE_SCHEMA).

    Attributes:
        reader: of the predicate's columns, as the table has them.
        own_schema: read each file by its own schema, and note what cannot be read instead of raising.
        skip_by_footer: believe the footer's statistics where they rule a match out.
    """

    files: pa.Table
    reader: TableReader
    predicate: Predicate
    own_schema: bool
    skip_by_footer: bool


def count_live(snapshot: Snapshot, sql: str, engine: Engine) -> tuple[int, int]:
    """(rows, files) of the version for which ``sql`` is true. Raises InvalidPredicateError."""
    predicate = parse(sql, snapshot.schema, table=snapshot.store.root)
    counted = _run(snapshot, predicate, snapshot.prune(predicate), engine, own_schema=False, skip_by_footer=False)
    return _total(counted), int(pc.sum(pc.greater(counted["matches"], 0)).as_py() or 0)


def count_stored(snapshot: Snapshot, sql: str, objects: pa.Table, engine: Engine, *, skip_by_footer: bool) -> pa.Table:
    """Count in stored objects (``path`` as in the store, ``size``, ``modified``), whether the log knows them or not.

    Returns:
        A table of COUNTED_SCHEMA, paths as in the log.
    """
    predicate = parse(sql, snapshot.schema, table=snapshot.store.root)
    files = as_files(snapshot, objects, predicate.columns)
    return _run(snapshot, predicate, files, engine, own_schema=True, skip_by_footer=skip_by_footer)


def _run(
    snapshot: Snapshot,
    predicate: Predicate,
    files: pa.Table,
    engine: Engine,
    *,
    own_schema: bool,
    skip_by_footer: bool,
) -> pa.Table:
    names = [name for name in snapshot.schema.names if name in predicate.columns]
    reader = TableReader(
        snapshot.store, select(snapshot.schema, names), snapshot.partition_columns, snapshot.column_mapping
    )
    count = max(1, -(-len(files) // (engine.parallelism * _TASKS_A_THREAD)))
    tasks = [
        CountTask(files.slice(start, count).combine_chunks(), reader, predicate, own_schema, skip_by_footer)
        for start in range(0, len(files), count)
    ]
    return engine.run(count_matches, tasks) if tasks else COUNTED_SCHEMA.empty_table()


def count_matches(task: CountTask) -> pa.Table:
    """The task's files with ``matches`` and ``note``."""
    constants = task.reader.constants(task.files)
    found: list[tuple[int | None, str | None]] = []
    for index, path in enumerate(task.files["path"].to_pylist()):
        values = {name: column[index] for name, column in constants.items()}
        try:
            vector = None if task.own_schema else task.files["deletionVector"][index].as_py()
            found.append(_count(task, path, vector, values))
        except ObjectNotFoundError:
            if not task.own_schema:
                raise
            found.append((0, "deleted meanwhile"))
        except (DeltaError, pa.ArrowException, OSError) as error:
            if not task.own_schema:
                raise
            found.append((None, error.message if isinstance(error, DeltaError) else str(error)))
    counted = pa.array([rows for rows, _ in found], pa.int64())
    notes = pa.array([note for _, note in found], pa.string())
    return task.files.append_column("matches", counted).append_column("note", notes).cast(COUNTED_SCHEMA)


def _count(
    task: CountTask, path: str, vector: Mapping[str, Any] | None, constants: dict[str, pa.Scalar]
) -> tuple[int, str | None]:
    with task.reader.open(path, vector) as file:
        reader = task.reader
        if task.own_schema:
            missing = [one.name for one in reader.schema if one.name not in constants and not reader.holds(file, one)]
            holds_none = missing and len(missing) == len(reader.schema.names)
            if holds_none and not _true_of_nulls(task.predicate, reader.schema):
                return 0, f"no column {', '.join(missing)}"
            # With column mapping a column that was retyped is another column, and the table's own type is the one.
            if reader.mapping == "none":
                reader = replace(reader, schema=_own_schema(file, reader.schema, constants))
        predicate = task.predicate
        if [field.type for field in reader.schema] != [field.type for field in task.reader.schema]:
            predicate = parse(predicate.sql, reader.schema, table=reader.store.root)
        # Footers have the files' own names.
        by_footer = task.skip_by_footer and reader.mapping == "none"
        if by_footer and _ruled_out(file.metadata, predicate, reader, task.files, path):
            return 0, None
        if not predicate.columns:  # TRUE or FALSE: nothing to read
            return _true(matches(predicate, pa.table([pa.nulls(file.live_rows)], [""]), reader.schema)), None
        groups = (reader.row_group(file, group, constants) for group in range(file.num_row_groups))
        return sum(_true(matches(predicate, rows, reader.schema)) for rows in groups), None


def _true_of_nulls(predicate: Predicate, schema: Schema) -> bool:
    """Whether it is true of a row in which every column is null, as ``email IS NULL`` is."""
    nulls = pa.table([pa.nulls(1, one.type.to_arrow()) for one in schema.fields], schema.names)
    return bool(_true(matches(predicate, nulls, schema)))


def _own_schema(file: pq.ParquetFile, wanted: Schema, constants: Iterable[str]) -> Schema:
    """The wanted columns in the file's types; what it lacks, which reads as nulls, in the table's."""
    stored = {field.name.lower(): field for field in file.schema_arrow}
    fields = []
    for field in wanted.fields:
        own = stored.get(field.name.lower()) if field.name not in constants else None
        if own is None:
            fields.append(field)
        else:
            (typed,) = Schema.from_arrow(pa.schema([own])).fields
            fields.append(Field(field.name, _with_missing(typed.type, field.type)))
    return Schema(fields)


def _with_missing(own: DataType, wanted: DataType) -> DataType:
    """A file's type with the members that only the table's has; inside structs, which is as far as predicates reach."""
    if not isinstance(own, StructType) or not isinstance(wanted, StructType):
        return own
    in_table = {one.name.lower(): one.type for one in wanted.fields}
    fields = [Field(one.name, _with_missing(one.type, in_table.pop(one.name.lower(), one.type))) for one in own.fields]
    missing = [Field(one.name, one.type) for one in wanted.fields if one.name.lower() in in_table]
    return StructType([*fields, *missing])


def _ruled_out(footer: pq.FileMetaData, predicate: Predicate, reader: TableReader, files: pa.Table, path: str) -> bool:
    every = StatisticsColumns(frozenset(column for column, _ in leaves(reader.schema)))
    row = files.filter(pc.equal(files["path"], path)).slice(0, 1)
    stats = pa.array([from_footer(footer, reader.schema, indexed=every)], pa.string())
    row = row.set_column(row.column_names.index("stats"), FILE_SCHEMA.field("stats"), stats)
    partitions = [name for name in reader.partition_columns if name in reader.schema]
    return not pc.any(may_match(predicate, row, reader.schema, partitions, "none")).as_py()


def _true(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _total(counted: pa.Table) -> int:
    return int(pc.sum(counted["matches"]).as_py() or 0)
