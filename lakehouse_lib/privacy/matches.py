"""Count the rows for which a predicate is true, file by file, reading only the predicate's columns.

Live files are read by the table's schema, without rows that deletion vectors hide. Stored files are read by their own
schema, because they may be older than a change of a column, or left by a killed writer. All rows of stored files are
read, because a deletion vector deletes nothing from the disk. If a stored file lacks a column, the value is taken from
the log or from the name of the file's folder. If neither has the value, the value of a partition column is unknown, and
the value of another column is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.data_skipping import may_match
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.reader import DataFile, TableReader
from lakehouse_lib.errors import DeltaError, ObjectNotFoundError
from lakehouse_lib.expressions import Predicate, matches, parse
from lakehouse_lib.operations.files import file_shares
from lakehouse_lib.privacy.sql import LABEL
from lakehouse_lib.privacy.stored_files import as_files, constants_of
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import DataType, Field, Schema, StructType, TableLayout
from lakehouse_lib.schema.column_mapping import is_generated
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import StatisticsColumns, from_footer, leaves

#: The result of a count: a files table with the columns ``matches`` and ``note``. ``matches`` is the number of matching
#: rows; null if the file cannot be checked. ``note`` is the reason for the null, or for the 0 of a file that was
#: deleted or has none of the columns.
COUNTED_SCHEMA = FILE_SCHEMA.append(pa.field("matches", pa.int64())).append(pa.field("note", pa.string()))

#: The note of a file that was deleted before it was counted; its count is 0.
GONE = "deleted meanwhile"


@dataclass(frozen=True)
class CountTask:
    """A task of the engine: count the matching rows of some files.

    Attributes:
        files: the files (FILE_SCHEMA).
        reader: a reader of the predicate's columns by the table's schema.
        predicate: the condition on rows.
        own_schema: whether to read each file by its own schema, and to note an error instead of raising it.
        skip_by_footer: whether to skip a file if the statistics in its footer rule out a match.
        table_schema: the schema of all columns.
    """

    files: pa.Table
    reader: TableReader
    predicate: Predicate
    own_schema: bool
    skip_by_footer: bool
    table_schema: Schema


def count_live(snapshot: Snapshot, sql: str, engine: Engine) -> tuple[int, int]:
    """The number of live rows for which ``sql`` is true, and the number of files that hold these rows.

    Raises:
        InvalidPredicateError: the predicate does not parse, or names a column that does not exist.
    """
    predicate = parse(sql, snapshot.schema, table=snapshot.store.root, label=LABEL)
    counted = _run(snapshot, predicate, snapshot.prune(predicate), engine, own_schema=False, skip_by_footer=False)
    return matching_rows(counted), int(pc.sum(pc.greater(counted["matches"], 0)).as_py() or 0)


def count_stored(snapshot: Snapshot, sql: str, objects: pa.Table, engine: Engine, *, skip_by_footer: bool) -> pa.Table:
    """Count the matching rows of stored objects, whether or not the log refers to them.

    Args:
        objects: a table with ``path`` as in the store, ``size`` and ``modified``.
        skip_by_footer: whether to skip a file if the statistics in its footer rule out a match.

    Returns:
        A table of COUNTED_SCHEMA, paths as in the log.
    """
    predicate = parse(sql, snapshot.schema, table=snapshot.store.root, label=LABEL)
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
    reader = TableReader(snapshot.store, snapshot.layout, snapshot.layout.columns(names))
    tasks = [
        CountTask(share, reader, predicate, own_schema, skip_by_footer, snapshot.schema)
        for share in file_shares(files, engine.parallelism)
    ]
    return engine.run(count_matches, tasks) if tasks else pa.Table.from_batches([], COUNTED_SCHEMA)


def count_matches(task: CountTask) -> pa.Table:
    """The task's files with ``matches`` and ``note``."""
    typed = {} if task.own_schema else task.reader.constants(task.files)
    counts: list[tuple[int | None, str | None]] = []
    for index, path in enumerate(task.files["path"].to_pylist()):
        try:
            if task.own_schema:
                counts.append(_count_stored(task, index, path))
            else:
                constants = {name: column[index] for name, column in typed.items()}
                counts.append((_count_live(task, index, path, constants), None))
        except ObjectNotFoundError:
            if not task.own_schema:
                raise
            counts.append((0, GONE))
        except (DeltaError, pa.ArrowException, OSError) as error:
            if not task.own_schema:
                raise
            counts.append((None, error.message if isinstance(error, DeltaError) else str(error)))
    counted = pa.array([rows for rows, _ in counts], pa.int64())
    notes = pa.array([note for _, note in counts], pa.string())
    return task.files.append_column("matches", counted).append_column("note", notes).cast(COUNTED_SCHEMA)


def _count_live(task: CountTask, index: int, path: str, constants: dict[str, pa.Scalar]) -> int:
    with task.reader.open(path, task.files["deletionVector"][index].as_py()) as file:
        return _matching_rows(file, task.reader, task.predicate, constants)


def _count_stored(task: CountTask, index: int, path: str) -> tuple[int | None, str | None]:
    reader, predicate = task.reader, task.predicate
    with reader.open(path, None) as file:
        pairs = task.files["partitionValues"][index].as_py() or ()
        constants = constants_of(file, pairs, reader)
        absent_names = [field.name for field in reader.schema if not reader.holds(file, field)]
        missing = [name for name in absent_names if name not in constants]
        # With column mapping a dropped column stays in the files, and a column added later may have the same name.
        other_columns = reader.other_columns(file, task.table_schema) if absent_names else []
        current_keys = {reader.layout.physical_name(field) for field in task.table_schema}
        other_columns += [key for key, _ in pairs if key not in current_keys] if missing else []
        generated = [name for name in other_columns if is_generated(name)]
        if missing and generated:
            return None, (
                f"the file has columns of an older schema under the generated names {', '.join(generated)}, and no "
                f"column {', '.join(missing)}; look at the file, and rewrite it or delete it by hand"
            )
        dropped = (
            reader.other_columns(file, task.table_schema) if absent_names and reader.layout.mapping != "none" else []
        )
        reused_names = [name for name in absent_names if name.lower() in {field.lower() for field in dropped}]
        if reused_names:
            return None, (
                f"the file has a dropped column {', '.join(reused_names)}, and the table has another column of that "
                "name; look at the file, and rewrite it or delete it by hand"
            )
        unknown = [name for name in missing if reader.layout.is_partition_column(name)]
        if unknown:
            return None, (
                f"the value of partition column {', '.join(unknown)} is unknown: it is not in the file, the log or the "
                "name of its folder; look at the file, and move or delete it by hand"
            )
        holds_none = missing and len(missing) == len(reader.schema.names)
        if holds_none and not _true_of_nulls(predicate, reader.schema):
            return 0, f"no column {', '.join(missing)}" + (f", but dropped {', '.join(dropped)}" if dropped else "")
        # With column mapping, a column of another type is another column, unless it was widened. The reader widens it.
        if reader.layout.mapping == "none":
            reader = replace(reader, schema=_own_schema(file, reader.schema, constants))
        if [field.type for field in reader.schema] != [field.type for field in task.reader.schema]:
            predicate = parse(predicate.sql, reader.schema, table=reader.store.root, label=predicate.label)
        # With column mapping, footers have physical names.
        by_footer = task.skip_by_footer and reader.layout.mapping == "none"
        if by_footer and _ruled_out(file.metadata, predicate, reader, task.files.slice(index, 1), constants):
            return 0, None
        return _matching_rows(file, reader, predicate, constants), None


def _matching_rows(file: DataFile, reader: TableReader, predicate: Predicate, constants: dict[str, pa.Scalar]) -> int:
    if not predicate.columns:  # TRUE or FALSE: nothing to read
        return _count_true(matches(predicate, pa.table([pa.nulls(file.live_rows)], [""])))
    groups = (reader.row_group(file, group, constants) for group in range(file.num_row_groups))
    return sum(_count_true(matches(predicate, rows)) for rows in groups)


def _true_of_nulls(predicate: Predicate, schema: Schema) -> bool:
    """Whether the predicate is true for a row in which every column is null, as ``email IS NULL`` is."""
    nulls = pa.table([pa.nulls(1, field.type.to_arrow()) for field in schema.fields], schema.names)
    return bool(_count_true(matches(predicate, nulls)))


def _own_schema(file: pq.ParquetFile, columns: Schema, constants: Iterable[str]) -> Schema:
    """The columns with the file's types; a column that the file lacks has the table's type."""
    stored = {field.name.lower(): field for field in file.schema_arrow}
    fields = []
    for field in columns.fields:
        own = stored.get(field.name.lower()) if field.name not in constants else None
        if own is None:
            fields.append(field)
        else:
            (typed,) = Schema.from_arrow(pa.schema([own])).fields
            fields.append(Field(field.name, _with_missing(typed.type, field.type)))
    return Schema(fields)


def _with_missing(own: DataType, table_type: DataType) -> DataType:
    """A file's type with the struct members that only the table's type has.

    Lists and maps are unchanged, because a predicate cannot name a member inside of them.
    """
    if not isinstance(own, StructType) or not isinstance(table_type, StructType):
        return own
    in_table = {member.name.lower(): member.type for member in table_type.fields}
    fields = [
        Field(member.name, _with_missing(member.type, in_table.pop(member.name.lower(), member.type)))
        for member in own.fields
    ]
    missing = [Field(member.name, member.type) for member in table_type.fields if member.name.lower() in in_table]
    return StructType([*fields, *missing])


def _ruled_out(
    footer: pq.FileMetaData, predicate: Predicate, reader: TableReader, row: pa.Table, constants: Iterable[str]
) -> bool:
    all_files = StatisticsColumns(frozenset(column for column, _ in leaves(reader.schema)))
    stats = pa.array([from_footer(footer, reader.schema, indexed=all_files)], pa.string())
    row = row.set_column(row.column_names.index("stats"), FILE_SCHEMA.field("stats"), stats)
    return not pc.any(may_match(predicate, row, TableLayout(reader.schema, tuple(constants)))).as_py()


def _count_true(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


def matching_rows(counted: pa.Table) -> int:
    """The sum of matching rows in a table of COUNTED_SCHEMA."""
    return int(pc.sum(counted["matches"]).as_py() or 0)
