"""The methods of ``DeltaTable`` that read the rows of a version, and its changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.table.description import DescribedTable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads
    import pyarrow.fs

    from lakehouse_lib.engine.arrow.engine import ArrowEngine
    from lakehouse_lib.table.description import Filter, Filters


class ReadableTable(DescribedTable):
    """A table at a version, with the methods that read rows. ``DeltaTable`` is its subclass.

    A table can be passed to any function that accepts the Arrow PyCapsule interface: ``pa.table(table)``,
    ``polars.DataFrame(table)``, ``write_deltalake(target, table)``.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, in bounded memory (Arrow PyCapsule interface)."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def scan(
        self,
        columns: list[str] | None = None,
        predicate: str | Filters | None = None,
        *,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, in bounded memory, read by the Arrow engine.

        Args:
            columns: names of columns; None: all, in the schema's order.
            predicate: only rows for which it is true; None: all rows.
            row_ids: add two int64 columns: ``_metadata.row_id``, and ``_metadata.row_commit_version``, the version that
                added or last changed the row. The table must have row tracking (``delta.enableRowTracking``).
        """
        return self._arrow_engine.read(self._snapshot, columns, self._predicate(predicate), row_ids=row_ids)

    def to_pyarrow_table(
        self,
        partitions: Sequence[Filter] | None = None,
        columns: list[str] | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        filters: str | Filters | pads.Expression | None = None,
    ) -> pa.Table:
        """The rows, read by the Arrow engine.

        Args:
            partitions: an older argument: another condition, which must also be true.
            columns: names of columns; None: all, in the schema's order.
            filesystem: as in ``to_pyarrow_dataset``. With a file system, only tables that ``to_pyarrow_dataset``
                accepts can be read.
            filters: a condition, or a pyarrow expression; None: all rows.

        Raises:
            InvalidArgumentError: a column does not exist, or the expression needs other columns.
        """
        import pyarrow as pa
        import pyarrow.dataset as pads

        from lakehouse_lib.expressions import conjoin, matches

        if isinstance(filters, pads.Expression):
            from lakehouse_lib.engine.arrow.dataset import check_expression

            condition = self._predicate(partitions)
            columns = self._snapshot.names_of(columns)
            check_expression(self._snapshot, filters)
            # A dataset has all rows of its files. So a dataset is used only for a condition on partition columns alone.
            if condition is None or condition.partition_only(self._snapshot.partition_columns):
                # If a pyarrow dataset cannot read or filter the table correctly, the scan below does.
                refused = (UnsupportedFeatureError, pa.ArrowInvalid, pa.ArrowNotImplementedError)
                with suppress(*refused if filesystem is None else ()):
                    dataset = self.to_pyarrow_dataset(filesystem=filesystem, file_pruning_predicate=partitions)
                    return dataset.to_table(columns=columns, filter=filters)
            if filesystem is not None:
                every_column = self.to_pyarrow_table(partitions, filesystem=filesystem)
                return every_column.filter(filters).select(columns)
            rows = self.scan(predicate=partitions)
            return pads.Scanner.from_batches(rows, columns=columns, filter=filters).to_table()
        condition = conjoin(self._predicate(partitions), self._predicate(filters))
        if filesystem is None:
            return self._arrow_engine.read(self._snapshot, columns, condition).read_all()
        columns = self._snapshot.names_of(columns)
        needed = [name for name in self.schema().names if name in columns or (condition and name in condition.columns)]
        files = self._snapshot.prune(condition, [name for name in FILE_SCHEMA.names if name not in ("stats", "tags")])
        table = self._dataset(files, filesystem=filesystem).to_table(columns=needed)
        return (table if condition is None else table.filter(matches(condition, table))).select(columns)

    def to_pyarrow_dataset(
        self,
        partitions: Filters | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        parquet_read_options: pads.ParquetReadOptions | None = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: str | Filters | None = None,
    ) -> pads.Dataset:
        """The live files as a pyarrow dataset, with their partition values and the bounds of their columns.

        Args:
            partitions: an older name of ``file_pruning_predicate``.
            filesystem: the file system to read with; its root is the table's folder.
            parquet_read_options: columns to read as dictionaries, and the unit of INT96 timestamps.
            schema: the schema of the dataset; None: the table's schema.
            as_large_types: read strings, binaries and lists with 64-bit offsets; ignored if ``schema`` is given.
            file_pruning_predicate: only files that may hold a row for which it is true, with all of their rows; None:
                all files.

        Raises:
            UnsupportedFeatureError: pyarrow would read rows incorrectly (deletion vectors, column mapping, days before
                1901 in the calendar that Spark used before version 3). ``scan`` and ``to_pyarrow_table`` read such
                tables. To find such days, this method reads the footers of the files that may have days before 1901 by
                the statistics in the log. Most tables have no such file. If the log has no statistics, or if dates are
                in lists or maps, the method reads all footers. Three problems raise the error only when a file of the
                dataset is opened: the case of a column's name differs from the table, a column has nanoseconds, or a
                column has integers that are too wide for the table's decimal.
        """
        condition = self._only_condition(partitions, file_pruning_predicate, "partitions")
        files = self._snapshot.prune(self._predicate(condition), [name for name in FILE_SCHEMA.names if name != "tags"])
        if schema is None and as_large_types:
            schema = self.schema().to_arrow(as_large_types=True)
        return self._dataset(files, filesystem=filesystem, schema=schema, read_options=parquet_read_options)

    def to_pandas(
        self,
        partitions: Sequence[Filter] | None = None,
        columns: list[str] | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        filters: str | Filters | pads.Expression | None = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
    ) -> Any:
        """``to_pyarrow_table`` as a pandas DataFrame; ``types_mapper`` as in ``pyarrow.Table.to_pandas``."""
        table = self.to_pyarrow_table(partitions, columns, filesystem, filters)
        return table.to_pandas(types_mapper=types_mapper)

    def deletion_vectors(self) -> pa.RecordBatchReader:
        """One row for each file with a deletion vector; see ``operations.inspect.deletion_vectors``."""
        from lakehouse_lib.operations.inspect.deletion_vectors import deletion_vectors

        return deletion_vectors(self._snapshot)

    def to_spark(self, spark: Any, columns: list[str] | None = None, *, filters: str | Filters | None = None) -> Any:
        """The rows of this version as a Spark DataFrame, read by Spark's own scan. Session settings are not changed.

        Args:
            columns: default all, in the schema's order.
            filters: a condition that prunes files before Spark plans; Spark also pushes its own filters down.
        """
        from lakehouse_lib.engine.spark.engine import SparkEngine

        return SparkEngine(spark).read(self._snapshot, columns, self._predicate(filters))

    def load_cdf(
        self,
        starting_version: int | None = 0,
        ending_version: int | None = None,
        starting_timestamp: str | datetime | None = None,
        ending_timestamp: str | datetime | None = None,
        columns: list[str] | None = None,
        predicate: str | None = None,
        allow_out_of_range: bool = False,
    ) -> Any:
        """The rows that a range of commits inserted, updated and deleted (PROTOCOL.md, Add CDC File).

        The columns are those of the last version in the range, then ``_change_type`` ("insert", "delete",
        "update_preimage", "update_postimage"), ``_commit_version`` (long) and ``_commit_timestamp`` (timestamp).

        Args:
            starting_version, ending_version: the first and the last version, both inclusive. Default: from version 0 to
                the latest version, whichever version is open.
            starting_timestamp, ending_timestamp: more bounds, both inclusive: ISO 8601 text or a datetime; without a
                zone: UTC.
            columns: names of columns; None: all.
            predicate: only rows for which it is true; it may use ``_commit_version`` and ``_change_type``. None: all
                rows.
            allow_out_of_range: return no rows for a start after the latest version, instead of an error.

        Returns:
            A ``pa.RecordBatchReader`` in bounded memory and in the order of the commits; from the Spark engine a
            DataFrame.

        Raises:
            DeltaProtocolError: ``delta.enableChangeDataFeed`` was not true at a version of the range.
            VersionNotFoundError: the start is after the latest version, or a commit was cleaned up.
            SchemaMismatchError: some of the rows do not fit the schema of the last version.
            InvalidArgumentError: a bound or a column is not valid.
            InvalidPredicateError: the predicate is not valid.
            TableNotFoundError: the table was deleted, or deleted and created again, after it was opened.
        """
        from lakehouse_lib.change_data import change_feed, commit_range, read_changes
        from lakehouse_lib.expressions import parse

        self._snapshot.check_same_table()
        commits = commit_range(
            self.store,
            starting_version,
            ending_version,
            starting_timestamp,
            ending_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        feed = change_feed(self.store, commits)
        condition = None if predicate is None else parse(predicate, feed.schema, table=self.table_uri)
        return read_changes(feed, self.engine, columns, condition)

    def _dataset(self, files: pa.Table, **options: Any) -> pads.Dataset:
        from lakehouse_lib.engine.arrow.dataset import dataset

        return dataset(self._snapshot, files, **options)

    @property
    def _arrow_engine(self) -> ArrowEngine:
        from lakehouse_lib.engine.arrow.engine import ArrowEngine

        return self.engine if isinstance(self.engine, ArrowEngine) else ArrowEngine()
