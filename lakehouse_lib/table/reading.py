"""The methods of ``DeltaTable`` that read: metadata, files and rows of a version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from lakehouse_lib.engine.base import check_engine
from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.log.history import history
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.table.metadata import ProtocolVersions, TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads
    import pyarrow.fs

    from lakehouse_lib.engine.arrow.engine import ArrowEngine
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.expressions import Predicate
    from lakehouse_lib.fleet.health import Health

    Filter = tuple[str, str, Any]
    Filters = Sequence[Filter] | Sequence[Sequence[Filter]]


class ReadableTable:
    """A table at a version, for reading. ``DeltaTable`` opens it.

    Conditions are SQL text, or filters: a list of ``(column, operator, value)``, all of which must hold, or a list of
    such lists, one of which must hold. Operators are ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``, ``not in``.

    A table can be passed to any function that accepts the Arrow PyCapsule interface: ``pa.table(table)``,
    ``polars.DataFrame(table)``, ``write_deltalake(target, table)``.
    """

    def __init__(self, store: ObjectStore, snapshot: Snapshot, engine: Engine | None) -> None:
        check_engine(engine, table=store.root)
        self.store = store
        self._snapshot = snapshot
        self._engine = engine

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, in bounded memory (Arrow PyCapsule interface)."""
        return self.scan().__arrow_c_stream__(requested_schema)

    @property
    def table_uri(self) -> str:
        """The table's location, absolute."""
        return self.store.root

    @property
    def snapshot(self) -> Snapshot:
        """The open version."""
        return self._snapshot

    @cached_property
    def engine(self) -> Engine:
        """The execution engine."""
        if self._engine is not None:
            return self._engine
        from lakehouse_lib.engine.arrow.engine import ArrowEngine

        return ArrowEngine()

    # Metadata: read from the log only.

    def version(self) -> int:
        """The number of the open version."""
        return self._snapshot.version

    def schema(self) -> Schema:
        """The columns, including partition columns; ``to_arrow()`` converts them."""
        return self._snapshot.schema

    def metadata(self) -> TableMetadata:
        """Id, name, description, partition columns and properties (``configuration``), with the fields of
        ``deltalake``'s Metadata. The action in the log, ``lakehouse_lib.Metadata``, is ``snapshot.metadata``."""
        return TableMetadata.of(self._snapshot.metadata)

    def protocol(self) -> ProtocolVersions:
        """The protocol versions that a reader and a writer must support, and the names of the table's features."""
        return ProtocolVersions.of(self._snapshot.protocol)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits still in the log, newest first: commitInfo with ``version`` and ``timestamp``.

        The timestamp (ms since the epoch) is the commit time that time travel uses. The commitInfo in the log may have
        another time.

        Raises:
            TableNotFoundError: the table was deleted, or deleted and created again, after it was opened.
        """
        self._snapshot.check_same_table()
        return history(self.store, limit)

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that an application has committed (``CommitProperties.app_transactions``), or None."""
        transaction = self._snapshot.transactions.get(app_id)
        return transaction.version if transaction is not None else None

    def detail(self) -> dict[str, Any]:
        """The values of DESCRIBE DETAIL: sizes in bytes, times in UTC."""
        from lakehouse_lib.operations.inspect.detail import detail

        return detail(self._snapshot)

    def health(self, *, target_file_size: int | None = None, clustered_by: Sequence[str] = ()) -> Health:
        """Table health metrics, computed from the log only; see ``fleet.health``."""
        from lakehouse_lib.fleet.health import health

        return health(self._snapshot, target_file_size=target_file_size, clustered_by=clustered_by)

    def files(self, predicate: str | Filters | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The live files that may hold a row for which ``predicate`` is true, as an Arrow table; no data is read.

        Args:
            columns: names of ``lakehouse_lib.protocol.actions.FILE_SCHEMA``; only these are read from the log. Default:
                all except ``stats`` and ``tags``, which are most of a large table's log. ``get_add_actions`` returns
                the parsed statistics.

        Raises:
            InvalidArgumentError: a column does not exist.
        """
        column_names = (
            [name for name in FILE_SCHEMA.names if name not in ("stats", "tags")] if columns is None else columns
        )
        for name in column_names:
            if name not in FILE_SCHEMA.names:
                raise InvalidArgumentError(
                    f"the column {name!r} does not exist in the files of the log",
                    table=self.table_uri,
                    version=self.version(),
                    hint=f"The columns are {', '.join(FILE_SCHEMA.names)}",
                    code="DELTA_COLUMN_NOT_FOUND",
                )
        return self._snapshot.prune(self._predicate(predicate), column_names)

    def file_uris(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: str | Filters | None = None,
    ) -> list[str]:
        """Absolute locations of the live files that may hold a row for which the condition is true.

        Args:
            partition_filters: an older name of ``file_pruning_predicate``; only one of them may be given.
        """
        from lakehouse_lib.protocol import file_paths

        condition = self._only_condition(partition_filters, file_pruning_predicate, "partition_filters")

        def located(files: pa.Table) -> list[str]:
            uris: list[str] = []
            for paths in files["path"].chunks:
                uris += file_paths.absolute(file_paths.decode_all(paths, self.store), self.store).to_pylist()
            return uris

        predicate = self._predicate(condition)
        if predicate is not None:
            return located(self._snapshot.prune(predicate, ["path"]))
        return list(chain.from_iterable(self._snapshot.map_files(["path"], located)))

    def partitions(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: str | Filters | None = None,
    ) -> list[dict[str, str | None]]:
        """The partitions of the live files that may hold a row for which the condition is true.

        A partition is a dictionary: column -> value as text in the log, None for null.

        Args:
            partition_filters: an older name of ``file_pruning_predicate``; only one of them may be given.
        """
        from lakehouse_lib.operations.inspect.detail import partitions

        files = self.files(self._only_condition(partition_filters, file_pruning_predicate, "partition_filters"))
        return partitions(self._snapshot, files)

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """One row for each live file: path (as in the log), size_bytes, modification_time (ms since the epoch),
        num_records, null_count, min, max, partition.

        Args:
            flatten: return a column ``min.x`` instead of a member ``x`` of a struct ``min``.
        """
        from lakehouse_lib.operations.inspect.add_actions import add_actions

        return add_actions(self._snapshot, flatten=flatten)

    def count(self) -> int:
        """The number of rows, from the statistics of files that have them, and from the footers of the others."""
        from lakehouse_lib.operations.files import count_rows

        return count_rows(self._snapshot)

    # Rows.

    def scan(
        self,
        columns: list[str] | None = None,
        predicate: str | Filters | None = None,
        *,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, in bounded memory, read by the Arrow engine.

        Args:
            columns: default all, in the schema's order.
            predicate: only rows for which it is true.
            row_ids: add two int64 columns of a table with row tracking (``delta.enableRowTracking``):
                ``_metadata.row_id``, and ``_metadata.row_commit_version``, the version that added or last changed the
                row.
        """
        return self._arrow_engine.read(self._snapshot, columns, self._predicate(predicate), row_ids=row_ids)

    def to_pyarrow_table(
        self,
        partitions: Sequence[Filter] | None = None,
        columns: list[str] | None = None,
        *,
        filters: str | Filters | pads.Expression | None = None,
    ) -> pa.Table:
        """The rows, read by the Arrow engine.

        Args:
            partitions: a condition in addition to ``filters``, under an older name.
            columns: default all, in the schema's order.
            filters: a condition, or a pyarrow expression.

        Raises:
            InvalidArgumentError: a column does not exist, or the expression needs other columns.
        """
        import pyarrow as pa
        import pyarrow.dataset as pads

        from lakehouse_lib.expressions import conjoin

        if isinstance(filters, pads.Expression):
            from lakehouse_lib.engine.arrow.dataset import check_expression, dataset

            condition = self._predicate(partitions)
            columns = self._snapshot.names_of(columns)
            check_expression(self._snapshot, filters)
            # A dataset has all rows of its files, so the condition must be on partition values only.
            if condition is None or condition.partition_only(self._snapshot.partition_columns):
                # A scan reads the tables that a pyarrow dataset cannot read or filter correctly.
                with suppress(UnsupportedFeatureError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    return dataset(self._snapshot, self.files(partitions)).to_table(columns=columns, filter=filters)
            rows = self.scan(predicate=partitions)
            return pads.Scanner.from_batches(rows, columns=columns, filter=filters).to_table()
        condition = conjoin(self._predicate(partitions), self._predicate(filters))
        return self._arrow_engine.read(self._snapshot, columns, condition).read_all()

    def to_pyarrow_dataset(
        self,
        partitions: Filters | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        *,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: str | Filters | None = None,
    ) -> pads.Dataset:
        """The live files as a dataset with their partition values; pyarrow reads it.

        Args:
            partitions: an older name of ``file_pruning_predicate``.
            filesystem: the file system to read with; its root is the table's folder.
            schema: the types to read into; default the table's.
            as_large_types: strings, binaries and lists with 64-bit offsets.
            file_pruning_predicate: only files that may hold a row for which it is true, with all of their rows.

        Raises:
            UnsupportedFeatureError: pyarrow would read rows incorrectly (deletion vectors, column mapping, days before
                1901 in the calendar of Spark before 3). ``scan`` and ``to_pyarrow_table`` can read them. To find such
                days, the footers are read of files that may have them by the statistics in the log. Usually there is
                no such file. All footers are read if the log has no statistics, or if dates are in lists or maps. The
                error is raised later, when a file of the dataset is opened, if the case of a column's name differs from
                the table, or if a column has nanoseconds, or integers that are too wide for the table's decimal.
        """
        from lakehouse_lib.engine.arrow.dataset import dataset

        files = self.files(self._only_condition(partitions, file_pruning_predicate, "partitions"))
        if schema is None and as_large_types:
            schema = self.schema().to_arrow(as_large_types=True)
        return dataset(self._snapshot, files, filesystem=filesystem, schema=schema)

    def to_pandas(
        self,
        partitions: Sequence[Filter] | None = None,
        columns: list[str] | None = None,
        *,
        filters: str | Filters | pads.Expression | None = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
    ) -> Any:
        """``to_pyarrow_table`` as a pandas DataFrame; ``types_mapper`` as in ``pyarrow.Table.to_pandas``."""
        return self.to_pyarrow_table(partitions, columns, filters=filters).to_pandas(types_mapper=types_mapper)

    def to_spark(self, spark: Any, columns: list[str] | None = None, *, filters: str | Filters | None = None) -> Any:
        """This version as a DataFrame: Spark's own scan of exactly its files. Session settings are not changed.

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
            starting_version, ending_version: both inclusive; the default end is the latest version, whatever version is
                open.
            starting_timestamp, ending_timestamp: further bounds, both inclusive. ISO 8601 or a datetime; without a
                zone: UTC.
            columns: default all.
            predicate: only rows for which it is true; it may use ``_commit_version`` and ``_change_type``.
            allow_out_of_range: return no rows for a start after the latest version, instead of an error.

        Returns:
            A ``pa.RecordBatchReader`` in bounded memory and in the order of the commits; from the Spark engine a
            DataFrame.

        Raises:
            DeltaProtocolError: ``delta.enableChangeDataFeed`` was not true at a version of the range.
            VersionNotFoundError: the start is after the latest version, or a commit was cleaned up.
            SchemaMismatchError: the schema of the last version cannot hold some of the rows.
            InvalidArgumentError: a bound is not valid.
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

    @property
    def _arrow_engine(self) -> ArrowEngine:
        from lakehouse_lib.engine.arrow.engine import ArrowEngine

        return self.engine if isinstance(self.engine, ArrowEngine) else ArrowEngine()

    def _predicate(self, condition: str | Filters | None, label: str | None = None) -> Predicate | None:
        from lakehouse_lib.expressions import predicate_of

        schema, partition_columns = self._snapshot.schema, self._snapshot.partition_columns
        return predicate_of(condition, schema, partition_columns=partition_columns, table=self.table_uri, label=label)

    def _only_condition(self, older: Filters | None, newer: str | Filters | None, name: str) -> str | Filters | None:
        if older is not None and newer is not None:
            raise InvalidArgumentError(
                f"both {name} and file_pruning_predicate are given; expected one of them",
                table=self.table_uri,
                hint="Leave one of them out",
            )
        return older if newer is None else newer
