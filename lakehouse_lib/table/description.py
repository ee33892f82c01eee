"""The methods of ``DeltaTable`` that describe a version: its metadata, its history and its files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from lakehouse_lib.engine.base import check_engine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.log.history import history
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.table.metadata import Metadata, ProtocolVersions

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.expressions import Predicate
    from lakehouse_lib.fleet.health import Health
    from lakehouse_lib.operations.inspect.schema_changes import SchemaChange

    Filter = tuple[str, str, Any]
    Filters = Sequence[Filter] | Sequence[Sequence[Filter]]


class DescribedTable:
    """A table at a version, without its rows.

    A condition is SQL text, or filters. Filters are a list of ``(column, operator, value)``, all of which must be true,
    or a list of such lists, at least one of which must be true. Operators are ``=``, ``!=``, ``<``, ``<=``, ``>``,
    ``>=``, ``in``, ``not in``.
    """

    def __init__(self, store: ObjectStore, snapshot: Snapshot, engine: Engine | None) -> None:
        check_engine(engine, table=store.root)
        self.store = store
        self._snapshot = snapshot
        self._engine = engine

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

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
        """The execution engine; default: ``ArrowEngine()``."""
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

    def metadata(self) -> Metadata:
        """The table's id, name, description, partition columns and properties (``configuration``), as in ``deltalake``.

        ``snapshot.metadata`` is the metaData action of the log.
        """
        return Metadata.of(self._snapshot.metadata)

    def protocol(self) -> ProtocolVersions:
        """The protocol versions that a reader and a writer must support, and the names of the table's features."""
        return ProtocolVersions.of(self._snapshot.protocol)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits that are still in the log, newest first: commitInfo with ``version`` and ``timestamp``.

        The timestamp (ms since the epoch) is the commit time that time travel uses. The commitInfo in the log may have
        another time. A pinned version has ``pins``, the names of its pins.

        Args:
            limit: the maximum number of commits; None: all.

        Raises:
            InvalidArgumentError: the limit is not a whole number from 0.
            TableNotFoundError: the table was deleted, or deleted and created again, after it was opened.
        """
        from lakehouse_lib.log.retention.pins import list_pins

        self._snapshot.check_same_table()
        names: dict[int, list[str]] = {}
        for pin in list_pins(self.store):
            names.setdefault(pin.version, []).append(pin.name)
        return [
            {**entry, "pins": names[entry["version"]]} if entry["version"] in names else entry
            for entry in history(self.store, limit)
        ]

    def pins(self) -> dict[str, int]:
        """The pinned versions, by the names of their pins."""
        from lakehouse_lib.log.retention.pins import list_pins

        return {pin.name: pin.version for pin in list_pins(self.store)}

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that an application committed (``CommitProperties.app_transactions``); None: no version."""
        transaction = self._snapshot.transactions.get(app_id)
        return transaction.version if transaction is not None else None

    def detail(self) -> dict[str, Any]:
        """The values of DESCRIBE DETAIL: sizes in bytes, times in UTC."""
        from lakehouse_lib.operations.inspect.detail import detail

        return detail(self._snapshot)

    def schema_changes(self, most_commits: int = 100) -> list[SchemaChange]:
        """The changes of the schema in the newest commits up to this version, newest first.

        Without column mapping, a renamed column is a dropped and an added column.

        Args:
            most_commits: the maximum number of commits that are searched.
        """
        from lakehouse_lib.operations.inspect.schema_changes import schema_changes

        return schema_changes(self._snapshot, most_commits)

    def health(
        self,
        *,
        target_file_size: int | None = None,
        clustered_by: Sequence[str] = (),
        retention_hours: float | None = None,
    ) -> Health:
        """The health metrics of the open version, computed from the log only; ``fleet.health`` also scores them.

        Args:
            target_file_size: bytes; None: ``delta.targetFileSize``, else 100 MiB.
            clustered_by: the columns of the metrics about clustering; empty: the clustering columns of the table.
            retention_hours: hours for which removed files are kept; None: ``delta.deletedFileRetentionDuration``, else
                a week.
        """
        from lakehouse_lib.fleet.health import health

        return health(
            self._snapshot,
            target_file_size=target_file_size,
            clustered_by=clustered_by,
            retention_hours=retention_hours,
        )

    def files(self, predicate: str | Filters | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The live files that may hold a row for which ``predicate`` is true, as an Arrow table. Reads no data file.

        Args:
            predicate: None: all files.
            columns: names of columns of ``lakehouse_lib.protocol.actions.FILE_SCHEMA``; only these columns are read
                from the log. Default: all except ``stats`` and ``tags``, which are most of a large table's log.
                ``get_add_actions`` returns the parsed statistics.

        Raises:
            InvalidArgumentError: a column does not exist.
        """
        if columns is None:
            columns = [name for name in FILE_SCHEMA.names if name not in ("stats", "tags")]
        column_names = (columns,) if isinstance(columns, str) else columns
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
            partition_filters: an older name of ``file_pruning_predicate``; only one of the two may be given.
            file_pruning_predicate: the condition; None: all files.
        """
        from lakehouse_lib.protocol import file_paths

        condition = self._only_condition(partition_filters, file_pruning_predicate, "partition_filters")

        def uris_of(files: pa.Table) -> list[str]:
            uris: list[str] = []
            for paths in files["path"].chunks:
                uris += file_paths.absolute(file_paths.decode_all(paths, self.store), self.store).to_pylist()
            return uris

        predicate = self._predicate(condition)
        if predicate is not None:
            return uris_of(self._snapshot.prune(predicate, ["path"]))
        return list(chain.from_iterable(self._snapshot.map_files(["path"], uris_of)))

    def partitions(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: str | Filters | None = None,
    ) -> list[dict[str, str | None]]:
        """The partitions of the live files that may hold a row for which the condition is true.

        A partition is a dictionary: column -> text of the value in the log; None: null.

        Args:
            partition_filters: an older name of ``file_pruning_predicate``; only one of the two may be given.
            file_pruning_predicate: the condition; None: all files.
        """
        from lakehouse_lib.operations.inspect.detail import partitions

        files = self.files(self._only_condition(partition_filters, file_pruning_predicate, "partition_filters"))
        return partitions(self._snapshot, files)

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """One row for each live file, with the statistics of the log.

        The columns are path (as in the log), size_bytes, modification_time (ms since the epoch), num_records,
        null_count, min, max and partition.

        Args:
            flatten: return a column ``min.x`` instead of a member ``x`` of a struct ``min``.
        """
        from lakehouse_lib.operations.inspect.add_actions import add_actions

        return add_actions(self._snapshot, flatten=flatten)

    def count(self) -> int:
        """The number of rows: from the statistics in the log, and for files without statistics from their footers."""
        from lakehouse_lib.operations.files import count_rows

        return count_rows(self._snapshot)

    def _predicate(self, condition: str | Filters | None, label: str | None = None) -> Predicate | None:
        if condition is None:
            return None
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
