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
from lakehouse_lib.engine.parquet.written_files import NewFile, files_table
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

    Rows have the columns of ``column_names``. A file is opened for its first row group, and is closed when it has about
    the target size. ``roll`` and ``finish`` also close smaller files. After an error, call ``abort``.

    Args:
        target: the table.
        values: the partition values by the column's physical name, as texts of ``partitionValues`` in the log; None:
            the table has no partition columns.
    """

    def __init__(self, target: WriteTarget, values: Mapping[str, str | None] | None = None) -> None:
        self._target = target
        self._values = dict(values or {})
        self._layout = target.layout.physical
        self._column_names = column_names(target.layout)
        self._schema = stored_schema(target.layout)
        # The values of the partition columns that data files store, too.
        self._partition_scalars = [
            partition_values.to_typed(pa.array([self._values[field.name]], pa.string()), field.type)[0]
            for field in self._layout.copied_partition_columns.fields
        ]
        self._options = file_options(target)
        self._target_size = target_file_size(target.configuration, target.target_file_size, table=target.store.root)
        self._row_group_rows = self._options.row_group_rows or _ROW_GROUP_ROWS
        self._row_group_bytes = min(_ROW_GROUP_BYTES, max(_SMALLEST_ROW_GROUP_BYTES, self._target_size))
        self._statistics_columns = indexed_leaves(target)
        folders = [partition_values.hive_path(self._values, self._layout.partition_columns)]
        folders = [file_paths.CHANGE_DATA, *folders] if target.is_change_data else folders
        self._folder = "/".join(filter(None, folders))
        self._writer_id = uuid.uuid4()
        self._file_numbers = count()
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self.pending_bytes = 0
        self._path = ""
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._row_groups = 0
        self._float_ranges: dict[statistics.ParquetPath, statistics.FloatRange] = {}
        # Columns whose footers get no statistics. A column in which NaN is found is added.
        self._without_statistics = self._options.without_statistics
        self._paths: list[str] = []
        self._file_rows: list[NewFile] = []

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._writer is not None

    def write(self, rows: pa.Table) -> None:
        """Add rows; they are written to a file when a row group is complete."""
        rows = rows.select(self._column_names)
        for value in self._partition_scalars:
            rows = rows.append_column("", pa.repeat(value, len(rows)))
        try:
            rows = with_types(rows, self._schema)
        except NullMemberError:
            # Only rows that are copied from a file of another writer can have this null, because this library checks
            # new rows. The copy keeps the null, so the columns of later files are nullable.
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

    def copy_pending(self) -> None:
        """Copy the pending rows, which may be slices of larger batches, so that they do not keep the batches."""
        if self._pending_rows:
            rows = pa.concat_tables(self._pending)
            # ``combine_chunks`` copies several chunks, and returns a single one as it is.
            self._pending = [
                rows.combine_chunks() if len(self._pending) > 1 else rows.take(int64s(range(self._pending_rows)))
            ]

    def flush(self) -> None:
        """Write the pending rows as a row group."""
        if not self._pending_rows:
            return
        group = pa.concat_tables(self._pending)
        self._pending, self._pending_rows, self.pending_bytes = [], 0, 0
        ranges = statistics.float_ranges(group)
        nan_columns = {path for path, float_range in ranges.items() if float_range.has_nan}
        has_new_nan_column = not nan_columns <= self._without_statistics
        self._without_statistics |= nan_columns
        if self._writer is None:
            self._open(group)
        elif has_new_nan_column:
            self._write_again()
        self._write_group(group)
        self._float_ranges = statistics.union(self._float_ranges, ranges)
        assert self._sink is not None
        file_bytes = self._sink.tell()
        if file_bytes + file_bytes // self._row_groups // 2 >= self._target_size:
            self.roll()

    def roll(self) -> None:
        """Close the open file. Pending and later rows go to the next file."""
        if self._writer is None:
            return
        footer, size = self._close()
        omitted = self._options.without_statistics
        stats = statistics.from_footer(
            footer,
            self._layout.schema,
            indexed=self._statistics_columns,
            floats={path: values for path, values in self._float_ranges.items() if path not in omitted},
            string_prefix=self._options.string_prefix,
        )
        self._file_rows.append(NewFile(file_paths.encode(self._path), self._values, size, clock.now(), stats))
        self._float_ranges = {}

    def finish(self) -> list[NewFile]:
        """Write the pending rows and close the last file; returns a ``NewFile`` for each written file."""
        self.flush()
        self.roll()
        return self._file_rows

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
            self._target.store.delete_many(self._paths)
        self._writer = self._sink = None

    def _write_group(self, group: pa.Table) -> None:
        assert self._writer is not None
        with self._os_errors_as_store_errors():
            self._writer.write_table(group, row_group_size=len(group))
        self._row_groups += 1

    def _close(self) -> tuple[pq.FileMetaData, int]:
        """Close the open file; returns its footer and its size in bytes."""
        assert self._writer is not None
        assert self._sink is not None
        with self._os_errors_as_store_errors():
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
        with self._os_errors_as_store_errors(), self._target.store.open_input(old_path) as source:
            file = pq.ParquetFile(source)
            for number in range(file.num_row_groups):
                with self._os_errors_as_store_errors(old_path, "read again"):
                    group = with_types(file.read_row_group(number), self._schema)
                if self._writer is None:
                    self._open(group)
                self._write_group(group)
        with suppress(DeltaError):  # no commit refers to the old file, so vacuum deletes it
            self._target.store.delete_many([old_path])

    @contextmanager
    def _os_errors_as_store_errors(self, path: str | None = None, verb: str = "written") -> Iterator[None]:
        """Raise an OSError of the block as a StoreError that names the file (None: the current file)."""
        try:
            yield
        except OSError as error:  # a full disk, or a server's error
            text = str(error).partition("\n")[0]
            raise StoreError(
                f"the data file {path or self._path} cannot be {verb}: {text}",
                table=self._target.store.root,
                hint=self._target.store.explain(error),
            ) from error

    def _open(self, first: pa.Table) -> None:
        kind = "cdc" if self._target.is_change_data else "part"
        name = f"{kind}-{next(self._file_numbers):05d}-{self._writer_id}-c000{self._options.suffix}.parquet"
        self._path = f"{self._folder}/{name}" if self._folder else name
        self._paths.append(self._path)
        self._sink = self._target.store.open_output(self._path)
        with self._os_errors_as_store_errors():
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
    """Whether ``write_rows`` can check the rules of the target and compute the missing columns without Spark.

    Args:
        names: the columns that the rows have.
    """
    computed = target.computed.without(names)
    values = (*computed.defaults.values(), *computed.generated.values())
    return not any(rule.needs_spark for rule in target.rules) and all(is_renderable(value.root) for value in values)


def write_rows(batches: Iterable[pa.RecordBatch], names: Iterable[str], target: WriteTarget) -> pa.Table:
    """Write rows of a caller as new data files; returns the files table.

    The rows are aligned with the table. Computed columns that the rows lack are computed. Then the rules of the target
    are checked.

    Args:
        names: the columns that the rows have.

    Raises:
        InvalidArgumentError: the log or the store cannot store a partition value.
        SchemaMismatchError: a column or a value does not fit.
        ConstraintViolatedError: rows violate a rule.
    """
    aligned = align_batches(batches, target.layout.schema, table=target.store.root)
    return write_checked(with_computed(aligned, target.computed.without(names), target), target)


def write_checked(batches: Iterable[pa.RecordBatch], target: WriteTarget) -> pa.Table:
    """Check new rows by the rules of the target, and write them as ``write_stream`` does; returns the files table.

    Empty text in a partition column becomes null before the check, because the log stores empty text as null.

    Raises:
        ConstraintViolatedError: rows violate a rule.
    """
    return write_stream(check_rows(with_null_texts(batches, target), target.rules, table=target.store.root), target)


def write_stream(batches: Iterable[Any], target: WriteTarget) -> pa.Table:
    """Write a stream of tables or record batches as new data files; returns the files table.

    The rows have the columns of the table. If the target's layout has ``row_ids``, the rows also have the columns of
    ``row_ids``.

    Each partition has its own writer. Memory and open files are limited for any number of partitions. If more than
    256 MiB of rows are pending after a batch, the writer with the most pending bytes writes a row group. Pending rows
    are slices of their batches, so they are copied whenever the batches since the last copy have more than 512 MiB. If
    more than 128 files are open, the least recently used writers close their files.

    In a partitioned table with ``delta.autoOptimize.optimizeWrite``, each partition gets as few files as possible: all
    rows are gathered first. Rows beyond 256 MiB are gathered in scratch files.
    """
    if target.layout.partition_columns and OPTIMIZE_WRITE.is_on(target.configuration):
        return _write_by_partition(batches, target)
    writers: dict[tuple[str | None, ...], DataFileWriter] = {}
    names = column_names(target.layout)
    batch_bytes = 0
    try:
        for batch in batches:
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            for values, rows in rows_by_partition(table, target):
                # The writer that was used last is the last in the dictionary.
                writer = writers.pop(values, None) or DataFileWriter(target, _values_by_name(target, values))
                writers[values] = writer
                writer.write(rows.select(names))
            _limit_pending_rows_and_files(writers)
            batch_bytes += table.nbytes
            if batch_bytes > 2 * _PENDING_BYTES and target.layout.partition_columns:
                for writer in writers.values():
                    writer.copy_pending()
                batch_bytes = sum(writer.pending_bytes for writer in writers.values())
        file_rows = [row for writer in writers.values() for row in writer.finish()]
    except BaseException:
        for writer in writers.values():
            writer.abort()
        raise
    return files_table(file_rows, data_change=target.data_change)


def _write_by_partition(batches: Iterable[Any], target: WriteTarget) -> pa.Table:
    """Gather the rows of a stream by partition, and then write one partition after the other."""
    names = column_names(target.layout)
    writers: list[DataFileWriter] = []
    with scratch_folder() as folder:
        spool = PartitionSpool(folder, _PENDING_BYTES)
        for batch in batches:
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            for values, rows in rows_by_partition(table, target):
                spool.add(values, rows.select(names))
        try:
            file_rows = []
            for values, tables in spool.partitions():
                writers.append(DataFileWriter(target, _values_by_name(target, values)))
                for rows in tables:
                    writers[-1].write(rows)
                file_rows += writers[-1].finish()
        except BaseException:
            for writer in writers:
                writer.abort()
            raise
    return files_table(file_rows, data_change=target.data_change)


def indexed_leaves(target: WriteTarget) -> statistics.StatisticsColumns:
    """The columns that have statistics in the log, under their physical names.

    Identity columns always have statistics, because their high water marks are computed from them.
    """
    indexed = statistics.indexed_columns(target.layout, target.configuration)
    paths = indexed.paths | {(name,) for name in target.computed.identity}
    return statistics.StatisticsColumns(frozenset(map(target.layout.physical_path, paths)))


def _values_by_name(target: WriteTarget, values: tuple[str | None, ...]) -> dict[str, str | None]:
    return dict(zip(target.layout.partition_keys.values(), values, strict=True))


def _limit_pending_rows_and_files(writers: Mapping[tuple[str | None, ...], DataFileWriter]) -> None:
    """Write row groups while too many bytes are pending, and close files if too many are open.

    Args:
        writers: the writers by partition values, the least recently used first.
    """
    while sum(writer.pending_bytes for writer in writers.values()) > _PENDING_BYTES:
        max(writers.values(), key=lambda writer: writer.pending_bytes).flush()
    open_writers = [writer for writer in writers.values() if writer.is_open]
    for writer in open_writers[: max(0, len(open_writers) - _OPEN_FILES)]:
        writer.roll()
