"""Writing of rows into Parquet data files of a table, in bounded memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib import statistics
from lakehouse_lib.arrow.nested import NullMemberError, with_types
from lakehouse_lib.arrow.types import nullable
from lakehouse_lib.arrow.values import int64s
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.computing import with_computed, with_null_texts
from lakehouse_lib.engine.file_options import file_options
from lakehouse_lib.engine.parquet.stored_schema import column_names, stored_schema
from lakehouse_lib.engine.parquet.written_files import FileRow, files_table
from lakehouse_lib.engine.partition_spool import PartitionSpool
from lakehouse_lib.engine.partition_texts import rows_by_partition
from lakehouse_lib.engine.scratch_folders import scratch_folder
from lakehouse_lib.errors import DeltaError, StoreError
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.log import clock
from lakehouse_lib.protocol import file_paths, partition_values
from lakehouse_lib.protocol.table_properties import OPTIMIZE_WRITE, target_file_size
from lakehouse_lib.schema import align_batches, check_rows

_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 128 << 20
_SMALLEST_ROW_GROUP_BYTES = 1 << 20
_PENDING_BYTES = 256 << 20
_OPEN_FILES = 128
_SAMPLED_ROWS = 4096
_MOST_DISTINCT = 0.9  # a dictionary is used if at most this share of the sampled values is distinct


class DataFileWriter:
    """A writer of one partition's rows into files of about the target size.

    Rows have the columns of ``column_names``. No file is opened before the first row. A file is closed when it is full,
    by ``roll`` or by ``finish``. After an error, call ``abort``.

    Args:
        target: the table.
        values: the partition values, spelled as in ``partitionValues`` of the log.
    """

    def __init__(self, target: WriteTarget, values: Mapping[str, str | None] | None = None) -> None:
        self._target = target
        self._values = dict(values or {})
        self._layout = target.layout.physical
        self._names = column_names(target.layout)
        self._schema = stored_schema(target.layout)
        self._copies = [
            partition_values.to_typed(pa.array([self._values[field.name]], pa.string()), field.type)[0]
            for field in self._layout.copied_partition_columns.fields
        ]
        self._options = file_options(target)
        self._size = target_file_size(target.configuration, target.target_file_size, table=target.store.root)
        self._row_group_rows = self._options.row_group_rows or _ROW_GROUP_ROWS
        self._row_group_bytes = min(_ROW_GROUP_BYTES, max(_SMALLEST_ROW_GROUP_BYTES, self._size))
        self._indexed = indexed_leaves(target)
        folders = [partition_values.hive_path(self._values, self._layout.partition_columns)]
        folders = [file_paths.CHANGE_DATA, *folders] if target.is_change_data else folders
        self._folder = "/".join(filter(None, folders))
        self._job = uuid.uuid4()
        self._numbers = count()
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self.pending_bytes = 0
        self._path = ""
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._row_groups = 0
        self._floats: dict[statistics.ParquetPath, statistics.FloatRange] = {}
        self._without_statistics = self._options.without_statistics  # and columns in which NaN was found
        self._opened: list[str] = []
        self._rows: list[FileRow] = []

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._writer is not None

    def write(self, rows: pa.Table) -> None:
        """Add rows; they are written to a file when a row group is complete."""
        rows = rows.select(self._names)
        for value in self._copies:
            rows = rows.append_column("", pa.repeat(value, len(rows)))
        try:
            rows = with_types(rows, self._schema)
        except NullMemberError:  # only copied rows of another writer contain this null; the library checks its own rows
            self.flush()
            self.roll()
            self._schema = nullable(self._schema)
            rows = with_types(rows, self._schema)
        size = max(1, rows.nbytes)
        step = max(1, min(self._row_group_rows, len(rows) * self._row_group_bytes // size))
        start = 0
        while start < len(rows):
            part = rows.slice(start, min(step, self._row_group_rows - self._pending_rows))
            start += len(part)
            self._pending.append(part)
            self._pending_rows += len(part)
            self.pending_bytes += part.nbytes if len(rows) > len(part) else size
            if self._pending_rows >= self._row_group_rows or self.pending_bytes >= self._row_group_bytes:
                self.flush()

    def flush(self) -> None:
        """Write the pending rows as a row group."""
        if not self._pending_rows:
            return
        group = pa.concat_tables(self._pending)
        self._pending, self._pending_rows, self.pending_bytes = [], 0, 0
        ranges = statistics.float_ranges(group)
        with_nan = {path for path, float_range in ranges.items() if float_range.has_nan}
        is_new = not with_nan <= self._without_statistics
        self._without_statistics |= with_nan
        if self._writer is None:
            self._open(group)
        elif is_new:
            self._write_again()
        self._write_group(group)
        self._floats = statistics.union(self._floats, ranges)
        assert self._sink is not None
        written = self._sink.tell()
        if written + written // self._row_groups // 2 >= self._size:
            self.roll()

    def roll(self) -> None:
        """Close the open file; later rows go to a new one."""
        if self._writer is None:
            return
        footer, size = self._close()
        omitted = self._options.without_statistics
        stats = statistics.from_footer(
            footer,
            self._layout.schema,
            indexed=self._indexed,
            floats={path: values for path, values in self._floats.items() if path not in omitted},
            string_prefix=self._options.string_prefix,
        )
        self._rows.append(FileRow(file_paths.encode(self._path), self._values, size, clock.now(), stats))
        self._floats = {}

    def finish(self) -> list[FileRow]:
        """Write pending rows and close the open file; returns all files that were written."""
        self.flush()
        self.roll()
        return self._rows

    def abort(self) -> None:
        """Delete the written files as far as possible; vacuum deletes the others, because no version refers to them."""
        if self._writer is not None:
            # Close the writer before its sink. Otherwise the writer's finalizer would write a footer into the sink.
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
            self._writer.is_open = False
        if self._sink is not None:
            with suppress(OSError):
                self._sink.close()
        with suppress(DeltaError):  # the caller reports the error that caused the abort
            self._target.store.delete_many(self._opened)
        self._writer = self._sink = None

    def _write_group(self, group: pa.Table) -> None:
        assert self._writer is not None
        with self._failures():
            self._writer.write_table(group, row_group_size=len(group))
        self._row_groups += 1

    def _close(self) -> tuple[pq.FileMetaData, int]:
        """Close the open file; returns its footer and its size in bytes."""
        assert self._writer is not None
        assert self._sink is not None
        with self._failures():
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
        footer = self._writer.writer.metadata
        self._writer = self._sink = None
        return footer, size

    def _write_again(self) -> None:
        """Write the open file's rows to a new file, without statistics of the columns in which NaN was found.

        A Parquet writer must know the columns with statistics when it opens a file. Each column causes at most one such
        rewrite, because the later files of this writer have no statistics of that column.
        """
        self._close()
        old_path = self._path
        with self._failures(), self._target.store.open_input(old_path) as source:
            file = pq.ParquetFile(source)
            for number in range(file.num_row_groups):
                group = with_types(file.read_row_group(number), self._schema)
                if self._writer is None:
                    self._open(group)
                self._write_group(group)
        with suppress(DeltaError):  # no commit refers to the old file, so vacuum deletes it
            self._target.store.delete_many([old_path])

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # a full disk, or a server's error
            text = str(error).partition("\n")[0]
            raise StoreError(
                f"the data file {self._path} cannot be written: {text}",
                table=self._target.store.root,
                hint=self._target.store.explain(error),
            ) from error

    def _open(self, first: pa.Table) -> None:
        kind = "cdc" if self._target.is_change_data else "part"
        name = f"{kind}-{next(self._numbers):05d}-{self._job}-c000{self._options.suffix}.parquet"
        self._path = f"{self._folder}/{name}" if self._folder else name
        self._opened.append(self._path)
        self._sink = self._target.store.open_output(self._path)
        with self._failures():
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                write_statistics=statistics.footer_columns(self._schema, self._without_statistics),
                **self._options.arguments,
                **self._options.encodings(self._schema, _repeating_columns(first)),
            )
        self._row_groups = 0


def _repeating_columns(rows: pa.Table) -> list[str]:
    """The columns that are worth a dictionary, because their values repeat; all columns if one of them is nested.

    Dictionaries for the other columns would take half of the time of a write and make files larger.
    """
    if any(pa.types.is_nested(column.type) for column in rows.schema):
        return list(rows.column_names)
    stride = max(len(rows) // _SAMPLED_ROWS, 1)
    sample = rows.take(int64s(range(0, len(rows), stride)))
    return [
        name for name in rows.column_names if pc.count_distinct(sample[name]).as_py() <= _MOST_DISTINCT * len(sample)
    ]


def can_write_rows(names: Iterable[str], target: WriteTarget) -> bool:
    """Whether ``write_rows`` can check the rules of the target and compute its columns, without Spark."""
    computed = target.computed.without(names)
    values = (*computed.defaults.values(), *computed.generated.values())
    return not any(rule.needs_spark for rule in target.rules) and all(is_renderable(value.root) for value in values)


def write_rows(batches: Iterable[pa.RecordBatch], names: Iterable[str], target: WriteTarget) -> pa.Table:
    """Write rows of a caller, which have the columns ``names``, as new data files; returns the files table.

    The rows are aligned with the table, computed columns are computed, and the rules of the target are checked.

    Raises:
        SchemaMismatchError: a column or a value does not fit.
        ConstraintViolatedError: rows violate a rule.
    """
    aligned = align_batches(batches, target.layout.schema, table=target.store.root)
    return write_checked(with_computed(aligned, target.computed.without(names), target), target)


def write_checked(batches: Iterable[pa.RecordBatch], target: WriteTarget) -> pa.Table:
    """Write new rows as ``write_stream`` does, and check the rules of the target.

    Raises:
        ConstraintViolatedError: rows violate a rule. A rule sees null for empty text in a partition column, because
            the log stores it as null.
    """
    return write_stream(check_rows(with_null_texts(batches, target), target.rules, table=target.store.root), target)


def write_stream(batches: Iterable[Any], target: WriteTarget) -> pa.Table:
    """Write a stream of tables or record batches with the columns of the table; returns the files table.

    If the target's layout has ``row_ids``, the rows also have these columns.

    Each partition has its own writer. Memory is bounded for any number of partitions. If more than 256 MiB of rows are
    pending, the writer with the most pending bytes writes a row group. If more than 128 files are open, the least
    recently used writers close their files. In a partitioned table with ``delta.autoOptimize.optimizeWrite``, rows that
    exceed the memory are stored in scratch files instead, so that each partition gets as few files as possible.
    """
    if target.layout.partition_columns and OPTIMIZE_WRITE.is_on(target.configuration):
        return _write_gathered(batches, target)
    writers: dict[tuple[str | None, ...], DataFileWriter] = {}
    names = column_names(target.layout)
    try:
        for batch in batches:
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            for values, rows in rows_by_partition(table, target):
                # The writer that was used last is the last in the dictionary.
                writer = writers.pop(values, None) or DataFileWriter(target, _named(target, values))
                writers[values] = writer
                writer.write(rows.select(names))
            _bound_memory(writers)
        rows = [row for writer in writers.values() for row in writer.finish()]
    except BaseException:
        for writer in writers.values():
            writer.abort()
        raise
    return files_table(rows, data_change=target.data_change)


def _write_gathered(batches: Iterable[Any], target: WriteTarget) -> pa.Table:
    """Write a stream as ``write_stream`` does, one partition after the other."""
    names = column_names(target.layout)
    writers: list[DataFileWriter] = []
    with scratch_folder() as folder:
        spool = PartitionSpool(folder, _PENDING_BYTES)
        for batch in batches:
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            for values, rows in rows_by_partition(table, target):
                spool.add(values, rows.select(names))
        try:
            written = []
            for values, tables in spool.partitions():
                writers.append(DataFileWriter(target, _named(target, values)))
                for rows in tables:
                    writers[-1].write(rows)
                written += writers[-1].finish()
        except BaseException:
            for writer in writers:
                writer.abort()
            raise
    return files_table(written, data_change=target.data_change)


def indexed_leaves(target: WriteTarget) -> statistics.StatisticsColumns:
    """The columns with statistics, under their physical names.

    Identity columns always have statistics, because their high water marks are computed from them.
    """
    indexed = statistics.indexed_columns(target.layout, target.configuration)
    paths = indexed.paths | {(name,) for name in target.computed.identity}
    return statistics.StatisticsColumns(frozenset(map(target.layout.physical_path, paths)))


def _named(target: WriteTarget, values: tuple[str | None, ...]) -> dict[str, str | None]:
    return dict(zip(target.layout.partition_keys.values(), values, strict=True))


def _bound_memory(writers: Mapping[tuple[str | None, ...], DataFileWriter]) -> None:
    while sum(writer.pending_bytes for writer in writers.values()) > _PENDING_BYTES:
        max(writers.values(), key=lambda writer: writer.pending_bytes).flush()
    opened = [writer for writer in writers.values() if writer.is_open]
    for writer in opened[: max(0, len(opened) - _OPEN_FILES)]:
        writer.roll()
